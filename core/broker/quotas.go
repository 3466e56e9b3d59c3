package broker

import (
	"cmp"
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// quotas returns the namespace's current quotas, limited by the tier. 0 means no limit.
func (b *Broker) quotas() (q core.NamespaceQuotas) {
	if b.options.Quotas != nil {
		q = b.options.Quotas()
	}
	if limit := b.options.Limits.MaxEntities; q.MaxEntities <= 0 || limit > 0 && limit < q.MaxEntities {
		q.MaxEntities = limit
	}
	return q
}

func (b *Broker) quotaRefusal(ctx context.Context, ent *core.Entity) error {
	q := b.quotas()
	n, others, err := b.Population(ctx, ent.ID)
	if err != nil {
		return err
	}
	if q.MaxEntities > 0 && n >= q.MaxEntities {
		return core.Refuse(core.QuotaExceeded, "The namespace '%s' has %d queues and topics, and at most %d are allowed: delete some first.", b.ns.Name, n, q.MaxEntities)
	}
	return core.Refuse(core.QuotaExceeded, "The MaxSizeInMegabytes of all queues and topics of the namespace '%s' may be %d MB in total: the other entities have %d MB, and this entity would have %d MB. Set a smaller MaxSizeInMegabytes.",
		b.ns.Name, q.MaxSizeMegabytes, others, ent.Megabytes())
}

// Population returns the number of queues and topics, and the sum of their maximum sizes in MB. It
// leaves out the entity with the ID except.
func (b *Broker) Population(ctx context.Context, except string) (n int, megabytes int64, err error) {
	err = b.eachQueueAndTopic(ctx, func(ent *core.Entity) {
		if ent.ID != except {
			n++
			megabytes += ent.Megabytes()
		}
	})
	return n, megabytes, b.ns.Refusal(err, &core.Entity{})
}

func (b *Broker) checkSettings(s core.Settings) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return b.options.Limits.Check(&s)
}

// In Service Bus Standard, a partitioned entity has 16 partitions of the requested size, and
// reports the sum. Here it may have fewer partitions, which share that sum.
const maxPartitionMegabytes = core.MaxSizeMegabytes / core.PartitionedSize

func withReportedSize(e core.Entity) core.Entity {
	e.Settings.MaxSizeInMegabytes = e.Megabytes()
	return e
}

// withUse sets AccessedAt to the last use at this gateway, which the store may not know yet. The
// creation counts as a use of a subscription. Clients compare CreatedAt, UpdatedAt and AccessedAt,
// but stores keep only milliseconds; so withUse makes UpdatedAt later than CreatedAt, and
// AccessedAt later than UpdatedAt, by a tick if necessary.
func (b *Broker) withUse(e core.Entity) core.Entity {
	if known := b.cached(e.Name); known != nil && known.View().ID == e.ID {
		if used := time.UnixMilli(known.used.Load()).UTC(); used.After(e.AccessedAt) && known.used.Load() != 0 {
			e.AccessedAt = used
		}
	}
	if e.AccessedAt.Before(e.CreatedAt) && (e.Kind == core.Subscription || !e.AccessedAt.IsZero()) {
		e.AccessedAt = e.CreatedAt // an earlier version of the gateway recorded uses in whole seconds, so a use can precede the creation
	}
	const tick = 100 * time.Nanosecond
	if e.Revision > 1 && !e.UpdatedAt.After(e.CreatedAt) {
		e.UpdatedAt = e.CreatedAt.Add(tick)
	}
	if !e.AccessedAt.IsZero() && !e.AccessedAt.After(e.UpdatedAt) {
		e.AccessedAt = e.UpdatedAt.Add(tick)
	}
	return e
}

// fitMessageSize sets a maximum message size that the client has not set: to the stored one or, for
// a new entity (stored is 0), to the tier's default.
func (b *Broker) fitMessageSize(s *core.Settings, stored int64) {
	s.MaxMessageSizeInKilobytes = cmp.Or(s.MaxMessageSizeInKilobytes, stored, b.options.Limits.MessageSizeKB, core.DefaultMessageSizeKB)
}

// fitPartitioned converts the settings of a partitioned entity from the client's form to the stored
// form. The client sets MaxSizeInMegabytes for one partition; but a client that has read the entity
// sends back the sum of all partitions. Therefore a value that equals the reported sum, or that is
// too large for one partition, counts as the sum. stored is 0 at creation.
func fitPartitioned(s *core.Settings, stored int64) {
	if !s.EnablePartitioning {
		return
	}
	if m := s.MaxSizeInMegabytes; m > maxPartitionMegabytes || stored > 0 && m == stored*core.PartitionedSize {
		s.MaxSizeInMegabytes = m / core.PartitionedSize
	}
}
