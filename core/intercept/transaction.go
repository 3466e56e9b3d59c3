package intercept

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

type transaction struct {
	link  Link
	inner core.Transaction // nil before the first operation
}

func (f *Front) Begin() core.Transaction {
	return &transaction{link: Link{front: f, transaction: true}}
}

func (x *transaction) enter(ctx context.Context, id core.Identity) (*Space, error) {
	switch {
	case x.inner == nil:
		space, err := x.link.front.spaces.Space(ctx, id)
		if err != nil {
			return nil, err
		}
		x.link.id, x.link.space, x.inner = id, space, space.Broker.Begin()
	case x.link.id.NamespaceID() != id.NamespaceID():
		return nil, core.Refuse(core.NotAllowed, "The operation belongs to another namespace than the transaction: use one namespace per transaction.")
	}
	return x.link.space, nil
}

func (x *transaction) do(ctx context.Context, op Op, id core.Identity, address core.Address, groups [][]*core.Message, settlements []core.Settlement, do func(context.Context) error) error {
	c := newCall(op, id, address, func(ctx context.Context, c *Call) { c.Err = do(ctx) })
	defer c.free()
	c.Link, c.Groups, c.Settlements = &x.link, groups, settlements
	space, err := x.enter(ctx, id)
	c.run(ctx, x.link.front, space, err)
	return c.Err
}

func (x *transaction) Send(ctx context.Context, id core.Identity, address, via core.Address, group []*core.Message) error {
	return x.do(ctx, Send, id, address, [][]*core.Message{group}, nil, func(ctx context.Context) error {
		return x.inner.Send(ctx, id, address, via, group)
	})
}

func (x *transaction) Schedule(ctx context.Context, id core.Identity, address core.Address, group []*core.Message) (numbers []int64, err error) {
	err = x.do(ctx, Schedule, id, address, [][]*core.Message{group}, nil, func(ctx context.Context) (err error) {
		numbers, err = x.inner.Schedule(ctx, id, address, group)
		return err
	})
	return numbers, err
}

func (x *transaction) Settle(ctx context.Context, id core.Identity, address core.Address, settlements []core.Settlement) error {
	return x.do(ctx, Settle, id, address, nil, settlements, func(ctx context.Context) error {
		return x.inner.Settle(ctx, id, address, settlements)
	})
}

func (x *transaction) Cancel(ctx context.Context, id core.Identity, address core.Address, numbers []int64) error {
	return x.do(ctx, Cancel, id, address, nil, nil, func(ctx context.Context) error {
		return x.inner.Cancel(ctx, id, address, numbers)
	})
}

func (x *transaction) SetSessionState(ctx context.Context, id core.Identity, address core.Address, lock core.SessionLock, state []byte) error {
	return x.do(ctx, SessionState, id, address, nil, nil, func(ctx context.Context) error {
		return x.inner.SetSessionState(ctx, id, address, lock, state)
	})
}

// Without operations, only the interceptors are called.
func (x *transaction) Commit(ctx context.Context) error {
	c := newCall(Commit, nil, core.Address{}, func(ctx context.Context, c *Call) {
		if x.inner != nil {
			c.Err = x.inner.Commit(ctx)
		}
	})
	defer c.free()
	c.Link = &x.link
	space := x.link.space
	if space == nil {
		space = &Space{}
	}
	c.run(ctx, x.link.front, space, nil)
	return c.Err
}

func (x *transaction) Rollback(ctx context.Context) {
	if x.inner != nil {
		x.inner.Rollback(ctx)
	}
}
