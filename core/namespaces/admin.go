package namespaces

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

// The calls of core.Admin go to the Admin of the identity's namespace.

// CreateQueue implements core.Admin.
func (d *Directory) CreateQueue(ctx context.Context, id core.Identity, name string, s core.Settings) (core.Entity, error) {
	at, err := d.served(ctx, id)
	if err != nil {
		return core.Entity{}, err
	}
	return at.Admin.CreateQueue(ctx, id, name, s)
}

// CreateTopic implements core.Admin.
func (d *Directory) CreateTopic(ctx context.Context, id core.Identity, name string, s core.Settings) (core.Entity, error) {
	at, err := d.served(ctx, id)
	if err != nil {
		return core.Entity{}, err
	}
	return at.Admin.CreateTopic(ctx, id, name, s)
}

// CreateSubscription implements core.Admin.
func (d *Directory) CreateSubscription(ctx context.Context, id core.Identity, name string, s core.Settings, first *core.Rule) (core.Entity, error) {
	at, err := d.served(ctx, id)
	if err != nil {
		return core.Entity{}, err
	}
	return at.Admin.CreateSubscription(ctx, id, name, s, first)
}

// UpdateEntity implements core.Admin.
func (d *Directory) UpdateEntity(ctx context.Context, id core.Identity, name string, s core.Settings) (core.Entity, error) {
	at, err := d.served(ctx, id)
	if err != nil {
		return core.Entity{}, err
	}
	return at.Admin.UpdateEntity(ctx, id, name, s)
}

// CreateRule implements core.Admin.
func (d *Directory) CreateRule(ctx context.Context, id core.Identity, subscription string, r core.Rule) (core.Rule, error) {
	at, err := d.served(ctx, id)
	if err != nil {
		return core.Rule{}, err
	}
	return at.Admin.CreateRule(ctx, id, subscription, r)
}

// UpdateRule implements core.Admin.
func (d *Directory) UpdateRule(ctx context.Context, id core.Identity, subscription string, r core.Rule) (core.Rule, error) {
	at, err := d.served(ctx, id)
	if err != nil {
		return core.Rule{}, err
	}
	return at.Admin.UpdateRule(ctx, id, subscription, r)
}

// Entity implements core.Admin.
func (d *Directory) Entity(ctx context.Context, id core.Identity, name string) (core.Entity, core.Runtime, error) {
	at, err := d.served(ctx, id)
	if err != nil {
		return core.Entity{}, core.Runtime{}, err
	}
	return at.Admin.Entity(ctx, id, name)
}

// Entities implements core.Admin.
func (d *Directory) Entities(ctx context.Context, id core.Identity, l core.Listing, skip, top int) ([]core.Entity, []core.Runtime, error) {
	at, err := d.served(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	return at.Admin.Entities(ctx, id, l, skip, top)
}

// DeleteEntity implements core.Admin.
func (d *Directory) DeleteEntity(ctx context.Context, id core.Identity, name string) error {
	at, err := d.served(ctx, id)
	if err != nil {
		return err
	}
	return at.Admin.DeleteEntity(ctx, id, name)
}

// DeleteRule implements core.Admin.
func (d *Directory) DeleteRule(ctx context.Context, id core.Identity, subscription, rule string) error {
	at, err := d.served(ctx, id)
	if err != nil {
		return err
	}
	return at.Admin.DeleteRule(ctx, id, subscription, rule)
}

// Rules implements core.Admin.
func (d *Directory) Rules(ctx context.Context, id core.Identity, subscription string, skip, top int) ([]core.Rule, error) {
	at, err := d.served(ctx, id)
	if err != nil {
		return nil, err
	}
	return at.Admin.Rules(ctx, id, subscription, skip, top)
}

// Rule implements core.Admin.
func (d *Directory) Rule(ctx context.Context, id core.Identity, subscription, name string) (core.Rule, error) {
	at, err := d.served(ctx, id)
	if err != nil {
		return core.Rule{}, err
	}
	return at.Admin.Rule(ctx, id, subscription, name)
}

// TestRules implements core.Admin.
func (d *Directory) TestRules(ctx context.Context, id core.Identity, topic string, m *core.Message, trial []core.Rule) ([]core.Judgement, error) {
	at, err := d.served(ctx, id)
	if err != nil {
		return nil, err
	}
	return at.Admin.TestRules(ctx, id, topic, m, trial)
}

// Explain implements core.Admin.
func (d *Directory) Explain(ctx context.Context, id core.Identity, entity string, s core.Subject) (core.Account, error) {
	at, err := d.served(ctx, id)
	if err != nil {
		return core.Account{}, err
	}
	return at.Admin.Explain(ctx, id, entity, s)
}

// Namespace implements core.Admin. The registry has the times of its namespaces.
func (d *Directory) Namespace(ctx context.Context, id core.Identity) (core.NamespaceInfo, error) {
	m, err := d.of(id)
	if err != nil {
		return core.NamespaceInfo{}, err
	}
	at, err := m.serve(ctx)
	if err != nil {
		return core.NamespaceInfo{}, err
	}
	info, err := at.Admin.Namespace(ctx, id)
	if r := m.record.Load(); err == nil && !m.fixed {
		info.Name, info.CreatedAt, info.ModifiedAt = r.Name, r.CreatedAt, r.ModifiedAt
	}
	return info, err
}

// Reset implements core.Admin.
func (d *Directory) Reset(ctx context.Context, id core.Identity) error {
	at, err := d.served(ctx, id)
	if err != nil {
		return err
	}
	return at.Admin.Reset(ctx, id)
}
