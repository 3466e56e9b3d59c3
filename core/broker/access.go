package broker

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// access parses an address, checks that the identity holds the right on it, and finds its entity.
func (b *Broker) access(ctx context.Context, id core.Identity, right core.Right, address string) (*entry, core.Address, error) {
	a, err := core.ParseAddress(address)
	if err != nil {
		return nil, a, b.refusals.NotFound(address)
	}
	if err := id.Check(right, a.String(), time.Now()); err != nil {
		return nil, a, err
	}
	e, err := b.entity(ctx, a.Entity)
	return e, a, err
}

// Resolve implements core.Broker.
func (b *Broker) Resolve(ctx context.Context, _ core.Identity, address string) (core.Entity, core.Address, error) {
	a, err := core.ParseAddress(address)
	if err != nil {
		return core.Entity{}, a, b.refusals.NotFound(address)
	}
	e, err := b.entity(ctx, a.Entity)
	if err != nil {
		return core.Entity{}, a, err
	}
	return e.View().Entity, a, nil
}
