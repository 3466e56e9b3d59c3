package broker

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

// quotas are the namespace's current quotas, bounded by the tier's; zeros mean no limit.
func (b *Broker) quotas() (q core.NamespaceQuotas) {
	if b.options.Quotas != nil {
		q = b.options.Quotas()
	}
	if limit := b.options.Limits.MaxEntities; q.MaxEntities <= 0 || limit > 0 && limit < q.MaxEntities {
		q.MaxEntities = limit
	}
	return q
}

// quotaRefusal is the refusal of an entity that the store has refused because of the namespace's
// quotas.
func (b *Broker) quotaRefusal(ctx context.Context, ent *core.Entity) error {
	q := b.quotas()
	n, others, err := b.population(ctx, ent.ID)
	if err != nil {
		return b.refusal(err, ent)
	}
	if q.MaxEntities > 0 && n >= q.MaxEntities {
		return core.Refuse(core.QuotaExceeded, "The namespace '%s' has %d queues and topics, and may have %d: delete some first.", b.name, n, q.MaxEntities)
	}
	return core.Refuse(core.QuotaExceeded, "The queues and topics of the namespace '%s' may have %d MB together: others have %d, and %d more are wanted.",
		b.name, q.MaxSizeMegabytes, others, ent.Megabytes())
}

// Population counts the queues and topics of the namespace, and the megabytes that they may hold
// together.
func (b *Broker) Population(ctx context.Context) (n int, megabytes int64, err error) {
	if n, megabytes, err = b.population(ctx, ""); err != nil {
		return 0, 0, b.refusal(err, &core.Entity{})
	}
	return n, megabytes, nil
}

// population is Population without one entity.
func (b *Broker) population(ctx context.Context, but string) (n int, megabytes int64, err error) {
	for _, k := range [...]core.Kind{core.Queue, core.Topic} {
		err := b.walkListing(ctx, core.Listing{Kind: k}, func(ent *core.Entity) (gone bool) {
			if ent.ID != but {
				n++
				megabytes += ent.Megabytes()
			}
			return false
		})
		if err != nil {
			return 0, 0, err
		}
	}
	return n, megabytes, nil
}

// checkSettings refuses settings that are not valid, or beyond the limits of the tier.
func (b *Broker) checkSettings(s core.Settings) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return b.options.Limits.Check(&s)
}
