package faults

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

// admin is a core.Admin whose operations meet rules.
type admin struct {
	core.Admin
	front front
}

// Admin puts the rules in front of the management of entities.
func (r *Rules) Admin(a core.Admin) core.Admin { return &admin{a, front{rules: r}} }

// manage does an operation with the effect of the rule that it meets.
func manage[T any](ctx context.Context, x *admin, id core.Identity, entity string, do func() (T, error)) (result T, err error) {
	err = x.front.do(ctx, id, Manage, entity, func() error {
		result, err = do()
		return err
	})
	if err != nil {
		return *new(T), err
	}
	return result, nil
}

// nothing is the result of a call that has none.
func nothing(do func() error) func() (struct{}, error) {
	return func() (struct{}, error) { return struct{}{}, do() }
}

// CreateQueue implements core.Admin.
func (x *admin) CreateQueue(ctx context.Context, id core.Identity, name string, s core.Settings) (core.Entity, error) {
	return manage(ctx, x, id, name, func() (core.Entity, error) { return x.Admin.CreateQueue(ctx, id, name, s) })
}

// CreateTopic implements core.Admin.
func (x *admin) CreateTopic(ctx context.Context, id core.Identity, name string, s core.Settings) (core.Entity, error) {
	return manage(ctx, x, id, name, func() (core.Entity, error) { return x.Admin.CreateTopic(ctx, id, name, s) })
}

// CreateSubscription implements core.Admin.
func (x *admin) CreateSubscription(ctx context.Context, id core.Identity, name string, s core.Settings, first *core.Rule) (core.Entity, error) {
	return manage(ctx, x, id, name, func() (core.Entity, error) { return x.Admin.CreateSubscription(ctx, id, name, s, first) })
}

// UpdateEntity implements core.Admin.
func (x *admin) UpdateEntity(ctx context.Context, id core.Identity, name string, s core.Settings) (core.Entity, error) {
	return manage(ctx, x, id, name, func() (core.Entity, error) { return x.Admin.UpdateEntity(ctx, id, name, s) })
}

// DeleteEntity implements core.Admin.
func (x *admin) DeleteEntity(ctx context.Context, id core.Identity, name string) error {
	_, err := manage(ctx, x, id, name, nothing(func() error { return x.Admin.DeleteEntity(ctx, id, name) }))
	return err
}

// CreateRule implements core.RuleAdmin.
func (x *admin) CreateRule(ctx context.Context, id core.Identity, subscription string, r core.Rule) (core.Rule, error) {
	return manage(ctx, x, id, subscription, func() (core.Rule, error) { return x.Admin.CreateRule(ctx, id, subscription, r) })
}

// UpdateRule implements core.RuleAdmin.
func (x *admin) UpdateRule(ctx context.Context, id core.Identity, subscription string, r core.Rule) (core.Rule, error) {
	return manage(ctx, x, id, subscription, func() (core.Rule, error) { return x.Admin.UpdateRule(ctx, id, subscription, r) })
}

// DeleteRule implements core.RuleAdmin.
func (x *admin) DeleteRule(ctx context.Context, id core.Identity, subscription, rule string) error {
	_, err := manage(ctx, x, id, subscription, nothing(func() error { return x.Admin.DeleteRule(ctx, id, subscription, rule) }))
	return err
}
