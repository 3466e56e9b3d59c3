package namespaces

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

// transaction is a transaction in the namespace of the identity of its first operation.
type transaction struct {
	d     *Directory
	id    string           // of the namespace
	inner core.Transaction // nil before the first operation
}

// Begin implements core.Broker.
func (d *Directory) Begin() core.Transaction { return &transaction{d: d} }

func (t *transaction) of(ctx context.Context, id core.Identity) (core.Transaction, error) {
	if t.inner == nil {
		s, err := t.d.served(ctx, id)
		if err != nil {
			return nil, err
		}
		t.id, t.inner = id.NamespaceID(), s.Broker.Begin()
	}
	if t.id != id.NamespaceID() {
		return nil, core.Refuse(core.NotAllowed, "A transaction is of one namespace, and this operation of another.")
	}
	return t.inner, nil
}

// Send implements core.Transaction.
func (t *transaction) Send(ctx context.Context, id core.Identity, address, via string, group []*core.Message) error {
	inner, err := t.of(ctx, id)
	if err != nil {
		return err
	}
	return inner.Send(ctx, id, address, via, group)
}

// Settle implements core.Transaction.
func (t *transaction) Settle(ctx context.Context, id core.Identity, address string, settlements []core.Settlement) error {
	inner, err := t.of(ctx, id)
	if err != nil {
		return err
	}
	return inner.Settle(ctx, id, address, settlements)
}

// Cancel implements core.Transaction.
func (t *transaction) Cancel(ctx context.Context, id core.Identity, address string, numbers []int64) error {
	inner, err := t.of(ctx, id)
	if err != nil {
		return err
	}
	return inner.Cancel(ctx, id, address, numbers)
}

// Schedule implements core.Transaction.
func (t *transaction) Schedule(ctx context.Context, id core.Identity, address string, group []*core.Message) ([]int64, error) {
	inner, err := t.of(ctx, id)
	if err != nil {
		return nil, err
	}
	return inner.Schedule(ctx, id, address, group)
}

// SetSessionState implements core.Transaction.
func (t *transaction) SetSessionState(ctx context.Context, id core.Identity, address string, lock core.SessionLock, state []byte) error {
	inner, err := t.of(ctx, id)
	if err != nil {
		return err
	}
	return inner.SetSessionState(ctx, id, address, lock, state)
}

// Rollback implements core.Transaction.
func (t *transaction) Rollback(ctx context.Context) {
	if t.inner != nil {
		t.inner.Rollback(ctx)
	}
}

// Commit implements core.Transaction. Without operations there is nothing to do.
func (t *transaction) Commit(ctx context.Context) error {
	if t.inner == nil {
		return nil
	}
	return t.inner.Commit(ctx)
}
