package broker

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/audit"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

// Explain implements core.Admin.
func (b *Broker) Explain(ctx context.Context, id core.Identity, address string, s core.Subject) (core.Account, error) {
	a, err := core.ParseAddress(address)
	if err != nil {
		return core.Account{}, b.refusals.NotFound(address)
	}
	if err := authorize(id, a.Entity); err != nil {
		return core.Account{}, err
	}
	if s.MessageID == "" && s.Number <= 0 {
		return core.Account{}, core.Refuse(core.InvalidArgument, "Name the message by its id or its sequence number.")
	}
	e, err := b.entity(ctx, a.Entity)
	if err != nil {
		return core.Account{}, err
	}
	v := e.View()
	if e.audit == nil {
		return core.Account{}, core.Refuse(core.NotAllowed, "'%s' keeps no history of its messages: add it to explain in the configuration of the gateway.", v.Name)
	}
	b.audit.Flush(ctx)
	found := make([][]core.Event, len(v.Queues[core.Main]))
	errs := make([]error, len(found))
	entity.InParallel(len(found), func(i int) {
		found[i], errs[i] = v.Queues[core.Main][i].Recollect(ctx, s)
	})
	for _, err := range errs {
		if err != nil {
			return core.Account{}, b.refusals.Of(err, &v.Entity)
		}
	}
	return core.Account{Entity: v.Name, Kind: v.Kind, Events: audit.Merge(found)}, nil
}
