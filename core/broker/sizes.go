package broker

import (
	"cmp"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// A partitioned entity of Service Bus Standard has 16 partitions of the size
// that its creator asks for, and reports the sum. Here it may have fewer partitions,
// which share that sum.
const maxPartitionMegabytes = core.MaxSizeMegabytes / core.PartitionedSize

// withReportedSize is the entity as administration shows it.
func withReportedSize(e core.Entity) core.Entity {
	e.Settings.MaxSizeInMegabytes = e.Megabytes()
	return e
}

// withUse is the entity with a use of it that was not recorded yet. A
// subscription counts as used since it was created.
func (b *Broker) withUse(e core.Entity) core.Entity {
	if known := b.cached(e.Name); known != nil && known.current.Load().ID == e.ID {
		if used := time.UnixMilli(known.used.Load()).UTC(); used.After(e.AccessedAt) && known.used.Load() != 0 {
			e.AccessedAt = used
		}
	}
	if e.AccessedAt.Before(e.CreatedAt) && (e.Kind == core.Subscription || !e.AccessedAt.IsZero()) {
		e.AccessedAt = e.CreatedAt // an earlier version recorded whole seconds
	}
	return e
}

// fitMessageSize gives an entity that is not said to take larger messages the size
// that it had, or as a new one, for which stored is 0, that of the tier.
func (b *Broker) fitMessageSize(s *core.Settings, stored int64) {
	s.MaxMessageSizeInKilobytes = cmp.Or(s.MaxMessageSizeInKilobytes, stored, b.options.Limits.MessageSizeKB, core.DefaultMessageSizeKB)
}

// fitPartitioned turns the settings of a partitioned entity, as a client gives
// them, into those that are stored. MaxSizeInMegabytes is that of a partition;
// but clients that read an entity send back the sum, so what is the reported sum
// of the stored size, or more than a partition may have, is taken for the sum.
// stored is 0 at creation.
func fitPartitioned(s *core.Settings, stored int64) {
	if !s.EnablePartitioning {
		return
	}
	if m := s.MaxSizeInMegabytes; m > maxPartitionMegabytes || stored > 0 && m == stored*core.PartitionedSize {
		s.MaxSizeInMegabytes = m / core.PartitionedSize
	}
}
