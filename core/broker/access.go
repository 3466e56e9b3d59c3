package broker

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// access checks that the identity holds the right on an address, and finds its entity.
func (b *Broker) access(ctx context.Context, id core.Identity, right core.Right, a core.Address) (*entry, error) {
	if a.Entity == "" {
		return nil, b.refusals.NotFound(a.Unread)
	}
	if err := id.Check(right, a.String(), time.Now()); err != nil {
		return nil, err
	}
	return b.entity(ctx, a.Entity)
}

// Resolve implements core.Broker.
func (b *Broker) Resolve(ctx context.Context, _ core.Identity, a core.Address) (core.Entity, error) {
	if a.Entity == "" {
		return core.Entity{}, b.refusals.NotFound(a.Unread)
	}
	e, err := b.entity(ctx, a.Entity)
	if err != nil {
		return core.Entity{}, err
	}
	return e.View().Entity, nil
}
