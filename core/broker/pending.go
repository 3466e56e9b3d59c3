package broker

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

// CreateTopic implements core.Admin.
func (b *Broker) CreateTopic(context.Context, core.Identity, string, core.Settings) (core.Entity, error) {
	return core.Entity{}, core.NotImplemented
}

// CreateSubscription implements core.Admin.
func (b *Broker) CreateSubscription(context.Context, core.Identity, string, core.Settings, *core.Rule) (core.Entity, error) {
	return core.Entity{}, core.NotImplemented
}

// CreateRule implements core.Admin.
func (b *Broker) CreateRule(context.Context, core.Identity, string, core.Rule) (core.Rule, error) {
	return core.Rule{}, core.NotImplemented
}

// UpdateRule implements core.Admin.
func (b *Broker) UpdateRule(context.Context, core.Identity, string, core.Rule) (core.Rule, error) {
	return core.Rule{}, core.NotImplemented
}

// DeleteRule implements core.Admin.
func (b *Broker) DeleteRule(context.Context, core.Identity, string, string) error {
	return core.NotImplemented
}

// Rules implements core.Admin.
func (b *Broker) Rules(context.Context, core.Identity, string) ([]core.Rule, error) {
	return nil, core.NotImplemented
}
