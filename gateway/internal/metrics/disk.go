package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/crosstown-mq/crosstown/core/filestore"
)

// disk shows what the file store takes.
type disk struct {
	usage                               func() filestore.Usage
	bytes, segments, unsynced, resident *prometheus.Desc
}

// Disk adds what the file store takes on the disk and in memory.
func (m *Metrics) Disk(usage func() filestore.Usage) {
	m.registry.MustRegister(&disk{
		usage:    usage,
		bytes:    describe("store_disk_bytes", "Size of the file store's segments and snapshots."),
		segments: describe("store_segments", "Files of the file store's log and of large messages."),
		unsynced: describe("store_unsynced_bytes", "What the file store has written and not synced yet."),
		resident: describe("store_memory_bytes", "Messages that the file store keeps in memory too."),
	})
}

// Describe implements prometheus.Collector.
func (d *disk) Describe(ch chan<- *prometheus.Desc) {
	ch <- d.bytes
	ch <- d.segments
	ch <- d.unsynced
	ch <- d.resident
}

// Collect implements prometheus.Collector.
func (d *disk) Collect(ch chan<- prometheus.Metric) {
	u := d.usage()
	gauge(ch, d.bytes, float64(u.Bytes))
	gauge(ch, d.segments, float64(u.Segments))
	gauge(ch, d.unsynced, float64(u.Unsynced))
	gauge(ch, d.resident, float64(u.Resident))
}
