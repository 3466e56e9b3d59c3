package namespaces

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// The calls of core.Broker go to the broker of the identity's namespace.

// Resolve implements core.Broker.
func (d *Directory) Resolve(ctx context.Context, id core.Identity, address string) (core.Entity, core.Address, error) {
	s, err := d.served(ctx, id)
	if err != nil {
		return core.Entity{}, core.Address{}, err
	}
	return s.Broker.Resolve(ctx, id, address)
}

// OpenSender implements core.Broker. The sender is the namespace's own.
func (d *Directory) OpenSender(ctx context.Context, id core.Identity, address string, closed func(error)) (core.Sender, error) {
	s, err := d.served(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.Broker.OpenSender(ctx, id, address, closed)
}

// OpenReceiver implements core.Broker. The receiver is the namespace's own.
func (d *Directory) OpenReceiver(ctx context.Context, id core.Identity, address string, o core.ReceiverOptions) (core.Receiver, error) {
	s, err := d.served(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.Broker.OpenReceiver(ctx, id, address, o)
}

// Settle implements core.Broker.
func (d *Directory) Settle(ctx context.Context, id core.Identity, address string, settlements []core.Settlement) []error {
	s, err := d.served(ctx, id)
	if err != nil {
		errs := make([]error, len(settlements))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	return s.Broker.Settle(ctx, id, address, settlements)
}

// Renew implements core.Broker.
func (d *Directory) Renew(ctx context.Context, id core.Identity, address string, tokens []core.LockToken) []core.Renewal {
	s, err := d.served(ctx, id)
	if err != nil {
		all := make([]core.Renewal, len(tokens))
		for i := range all {
			all[i].Err = err
		}
		return all
	}
	return s.Broker.Renew(ctx, id, address, tokens)
}

// Peek implements core.Broker.
func (d *Directory) Peek(ctx context.Context, id core.Identity, address string, from int64, max int) ([]core.Delivery, error) {
	s, err := d.served(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.Broker.Peek(ctx, id, address, from, max)
}

// PeekState implements core.Broker.
func (d *Directory) PeekState(ctx context.Context, id core.Identity, address string, state core.State, from int64, max int) ([]core.Delivery, error) {
	s, err := d.served(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.Broker.PeekState(ctx, id, address, state, from, max)
}

// ReceiveDeferred implements core.Broker.
func (d *Directory) ReceiveDeferred(ctx context.Context, id core.Identity, address string, numbers []int64, mode core.ReceiveMode) ([]core.Delivery, error) {
	s, err := d.served(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.Broker.ReceiveDeferred(ctx, id, address, numbers, mode)
}

// Cancel implements core.Broker.
func (d *Directory) Cancel(ctx context.Context, id core.Identity, address string, numbers []int64) error {
	s, err := d.served(ctx, id)
	if err != nil {
		return err
	}
	return s.Broker.Cancel(ctx, id, address, numbers)
}

// Purge implements core.Broker.
func (d *Directory) Purge(ctx context.Context, id core.Identity, address string, before time.Time, max int) (int, error) {
	s, err := d.served(ctx, id)
	if err != nil {
		return 0, err
	}
	return s.Broker.Purge(ctx, id, address, before, max)
}

// AcceptSession implements core.Broker. The session is the namespace's own.
func (d *Directory) AcceptSession(ctx context.Context, id core.Identity, address string, o core.SessionOptions) (core.Session, error) {
	s, err := d.served(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.Broker.AcceptSession(ctx, id, address, o)
}

// ListSessions implements core.Broker.
func (d *Directory) ListSessions(ctx context.Context, id core.Identity, address string, since time.Time, skip, top int) ([]string, error) {
	s, err := d.served(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.Broker.ListSessions(ctx, id, address, since, skip, top)
}

// Health implements core.Broker with the health of the gateway's own namespace: all have the same
// store.
func (d *Directory) Health(ctx context.Context) (core.About, error) {
	s, err := d.own.serve(ctx)
	if err != nil {
		return core.About{}, err
	}
	return s.Broker.Health(ctx)
}
