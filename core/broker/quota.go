package broker

import "github.com/crosstown-mq/crosstown/core"

// A partitioned entity of Service Bus Standard has 16 partitions of the size
// that its creator asks for, reports the sum, and takes messages of at most
// 256 KB. Here it may have fewer partitions, which share that sum.
const (
	sizeFactor            = 16
	maxPartitionMegabytes = core.MaxSizeMegabytes / sizeFactor
	maxPartitionedKB      = 256
)

// totalMegabytes is the size of the whole entity: what administration reports.
func totalMegabytes(e *core.Entity) int64 {
	if e.Settings.EnablePartitioning {
		return e.Settings.MaxSizeInMegabytes * sizeFactor
	}
	return e.Settings.MaxSizeInMegabytes
}

// reported is the entity as administration shows it.
func reported(e core.Entity) core.Entity {
	e.Settings.MaxSizeInMegabytes = totalMegabytes(&e)
	return e
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
	if m := s.MaxSizeInMegabytes; m > maxPartitionMegabytes || stored > 0 && m == stored*sizeFactor {
		s.MaxSizeInMegabytes = m / sizeFactor
	}
	s.MaxMessageSizeInKilobytes = min(s.MaxMessageSizeInKilobytes, maxPartitionedKB)
	s.SupportOrdering = false
}
