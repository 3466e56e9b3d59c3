package broker

import (
	"cmp"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// A partitioned entity of Service Bus Standard has 16 partitions of the requested size, and reports
// the sum. Here it may have fewer partitions, which share that sum.
const maxPartitionMegabytes = core.MaxSizeMegabytes / core.PartitionedSize

// withReportedSize is the entity with the size that administration reports.
func withReportedSize(e core.Entity) core.Entity {
	e.Settings.MaxSizeInMegabytes = e.Megabytes()
	return e
}

// withUse is the entity with a last use that the store does not know yet. A subscription counts as
// used when it was created.
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

// fitMessageSize fills in an unset message size: with the stored one, or for a new entity, for
// which stored is 0, with the tier's.
func (b *Broker) fitMessageSize(s *core.Settings, stored int64) {
	s.MaxMessageSizeInKilobytes = cmp.Or(s.MaxMessageSizeInKilobytes, stored, b.options.Limits.MessageSizeKB, core.DefaultMessageSizeKB)
}

// fitPartitioned converts the settings of a partitioned entity from the client's form to the stored
// one. The client's MaxSizeInMegabytes is that of one partition. But clients that read an entity
// send back the sum: so the reported sum of the stored size, or more than a partition may have, is
// taken for the sum. stored is 0 at creation.
func fitPartitioned(s *core.Settings, stored int64) {
	if !s.EnablePartitioning {
		return
	}
	if m := s.MaxSizeInMegabytes; m > maxPartitionMegabytes || stored > 0 && m == stored*core.PartitionedSize {
		s.MaxSizeInMegabytes = m / core.PartitionedSize
	}
}
