package intercept

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

type Space struct {
	Broker core.Broker
	Admin  core.Admin
	Chain  []Interceptor // in the order of calls
	// Describe, if not nil, completes the namespace's description that Admin returns.
	Describe func(*core.NamespaceInfo)
}

// Spaces finds the namespace of an identity. The nil Identity gets the gateway's own.
type Spaces interface {
	Space(ctx context.Context, id core.Identity) (*Space, error)
}

func (s *Space) Space(context.Context, core.Identity) (*Space, error) { return s, nil }

// Front is the core.Broker and core.Admin that bridges call. It is safe for concurrent use.
type Front struct {
	spaces Spaces
	chain  []Interceptor
}

var (
	_ core.Broker = (*Front)(nil)
	_ core.Admin  = (*Front)(nil)
)

func New(spaces Spaces, chain ...Interceptor) *Front { return &Front{spaces, chain} }

func (f *Front) run(ctx context.Context, c *Call) {
	space, err := f.spaces.Space(ctx, c.ID)
	c.run(ctx, f, space, err)
}

func ask[T any](ctx context.Context, f *Front, op Op, id core.Identity, address core.Address, do func(context.Context, *Space) (T, error)) (answer T, err error) {
	_, err = f.call(ctx, op, id, address, func(ctx context.Context, c *Call) { answer, c.Err = do(ctx, c.space) })
	return answer, err
}

func (f *Front) call(ctx context.Context, op Op, id core.Identity, address core.Address, do func(context.Context, *Call)) ([]core.Delivery, error) {
	c := newCall(op, id, address, do)
	defer c.free()
	f.run(ctx, c)
	return c.Deliveries, c.Err
}

// Health returns the health of the gateway's own namespace, because all namespaces share one store.
func (f *Front) Health(ctx context.Context) (core.About, error) {
	s, err := f.spaces.Space(ctx, nil)
	if err != nil {
		return core.About{}, err
	}
	return s.Broker.Health(ctx)
}

// Resolve does not pass through interceptors, because it reads nothing that is stored.
func (f *Front) Resolve(ctx context.Context, id core.Identity, address core.Address) (core.Entity, error) {
	s, err := f.spaces.Space(ctx, id)
	if err != nil {
		return core.Entity{}, err
	}
	return s.Broker.Resolve(ctx, id, address)
}

func (f *Front) Settle(ctx context.Context, id core.Identity, address core.Address, settlements []core.Settlement) []error {
	c := newCall(Settle, id, address, settle)
	defer c.free()
	c.Settlements = settlements
	f.run(ctx, c)
	return c.Errs
}

func settle(ctx context.Context, c *Call) {
	c.Errs = c.space.Broker.Settle(ctx, c.ID, c.Address, c.Settlements)
}

func (f *Front) Renew(ctx context.Context, id core.Identity, address core.Address, tokens []core.LockToken) []core.Renewal {
	c := newCall(Renew, id, address, renew)
	defer c.free()
	c.Tokens = tokens
	f.run(ctx, c)
	return c.Renewals
}

func renew(ctx context.Context, c *Call) {
	c.Renewals = c.space.Broker.Renew(ctx, c.ID, c.Address, c.Tokens)
}

func (f *Front) Peek(ctx context.Context, id core.Identity, address core.Address, state *core.State, from int64, most int) ([]core.Delivery, error) {
	return f.call(ctx, Peek, id, address, func(ctx context.Context, c *Call) {
		c.Deliveries, c.Err = c.space.Broker.Peek(ctx, id, address, state, from, most)
	})
}

func (f *Front) ReceiveDeferred(ctx context.Context, id core.Identity, address core.Address, numbers []int64, mode core.ReceiveMode) ([]core.Delivery, error) {
	return f.call(ctx, ReceiveDeferred, id, address, func(ctx context.Context, c *Call) {
		c.Deliveries, c.Err = c.space.Broker.ReceiveDeferred(ctx, id, address, numbers, mode)
	})
}

func (f *Front) Cancel(ctx context.Context, id core.Identity, address core.Address, numbers []int64) error {
	_, err := f.call(ctx, Cancel, id, address, func(ctx context.Context, c *Call) { c.Err = c.space.Broker.Cancel(ctx, id, address, numbers) })
	return err
}

func (f *Front) Purge(ctx context.Context, id core.Identity, address core.Address, before time.Time, most int) (int, error) {
	return ask(ctx, f, Purge, id, address, func(ctx context.Context, s *Space) (int, error) {
		return s.Broker.Purge(ctx, id, address, before, most)
	})
}

func (f *Front) ListSessions(ctx context.Context, id core.Identity, address core.Address, since time.Time, skip, top int) ([]string, error) {
	return ask(ctx, f, ListSessions, id, address, func(ctx context.Context, s *Space) ([]string, error) {
		return s.Broker.ListSessions(ctx, id, address, since, skip, top)
	})
}

func (f *Front) CreateEntity(ctx context.Context, id core.Identity, kind core.Kind, name string, settings core.Settings, first *core.Rule) (core.Entity, error) {
	return ask(ctx, f, Create, id, core.At(name), func(ctx context.Context, s *Space) (core.Entity, error) {
		return s.Admin.CreateEntity(ctx, id, kind, name, settings, first)
	})
}

func (f *Front) UpdateEntity(ctx context.Context, id core.Identity, name string, settings core.Settings) (core.Entity, error) {
	return ask(ctx, f, Manage, id, core.At(name), func(ctx context.Context, s *Space) (core.Entity, error) {
		return s.Admin.UpdateEntity(ctx, id, name, settings)
	})
}

func (f *Front) DeleteEntity(ctx context.Context, id core.Identity, name string) error {
	_, err := f.call(ctx, Manage, id, core.At(name), func(ctx context.Context, c *Call) { c.Err = c.space.Admin.DeleteEntity(ctx, id, name) })
	return err
}

func (f *Front) CreateRule(ctx context.Context, id core.Identity, subscription string, r core.Rule) (core.Rule, error) {
	return ask(ctx, f, Create, id, core.At(subscription), func(ctx context.Context, s *Space) (core.Rule, error) {
		return s.Admin.CreateRule(ctx, id, subscription, r)
	})
}

func (f *Front) UpdateRule(ctx context.Context, id core.Identity, subscription string, r core.Rule) (core.Rule, error) {
	return ask(ctx, f, Manage, id, core.At(subscription), func(ctx context.Context, s *Space) (core.Rule, error) {
		return s.Admin.UpdateRule(ctx, id, subscription, r)
	})
}

func (f *Front) DeleteRule(ctx context.Context, id core.Identity, subscription, rule string) error {
	_, err := f.call(ctx, Manage, id, core.At(subscription), func(ctx context.Context, c *Call) {
		c.Err = c.space.Admin.DeleteRule(ctx, id, subscription, rule)
	})
	return err
}

func (f *Front) Rules(ctx context.Context, id core.Identity, subscription string, skip, top int) ([]core.Rule, error) {
	return ask(ctx, f, Read, id, core.At(subscription), func(ctx context.Context, s *Space) ([]core.Rule, error) {
		return s.Admin.Rules(ctx, id, subscription, skip, top)
	})
}

func (f *Front) Rule(ctx context.Context, id core.Identity, subscription, name string) (core.Rule, error) {
	return ask(ctx, f, Read, id, core.At(subscription), func(ctx context.Context, s *Space) (core.Rule, error) {
		return s.Admin.Rule(ctx, id, subscription, name)
	})
}

func (f *Front) TestRules(ctx context.Context, id core.Identity, name string, m *core.Message, trial []core.Rule) ([]core.Judgement, error) {
	return ask(ctx, f, Read, id, core.At(name), func(ctx context.Context, s *Space) ([]core.Judgement, error) {
		return s.Admin.TestRules(ctx, id, name, m, trial)
	})
}

func (f *Front) Entity(ctx context.Context, id core.Identity, name string) (e core.Entity, r core.Runtime, err error) {
	_, err = f.call(ctx, Read, id, core.At(name), func(ctx context.Context, c *Call) { e, r, c.Err = c.space.Admin.Entity(ctx, id, name) })
	return e, r, err
}

func (f *Front) Entities(ctx context.Context, id core.Identity, l core.Listing, skip, top int) (es []core.Entity, rs []core.Runtime, err error) {
	_, err = f.call(ctx, Read, id, core.Address{}, func(ctx context.Context, c *Call) {
		es, rs, c.Err = c.space.Admin.Entities(ctx, id, l, skip, top)
	})
	return es, rs, err
}

func (f *Front) Explain(ctx context.Context, id core.Identity, entity string, of core.Subject) (core.Account, error) {
	return ask(ctx, f, Read, id, core.At(entity), func(ctx context.Context, s *Space) (core.Account, error) {
		return s.Admin.Explain(ctx, id, entity, of)
	})
}

func (f *Front) Namespace(ctx context.Context, id core.Identity) (core.NamespaceInfo, error) {
	return ask(ctx, f, Read, id, core.Address{}, func(ctx context.Context, s *Space) (core.NamespaceInfo, error) {
		info, err := s.Admin.Namespace(ctx, id)
		if err == nil && s.Describe != nil {
			s.Describe(&info)
		}
		return info, err
	})
}

func (f *Front) Reset(ctx context.Context, id core.Identity) error {
	_, err := f.call(ctx, Read, id, core.Address{}, func(ctx context.Context, c *Call) { c.Err = c.space.Admin.Reset(ctx, id) })
	return err
}
