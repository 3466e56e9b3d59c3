package metrics

import "github.com/crosstown-mq/crosstown/core/filestore"

// Disk adds what the file store takes on the disk and in memory.
func (m *Metrics) Disk(usage func() filestore.Usage) {
	var c collector
	bytes := c.gauge("store_disk_bytes", "Size of the file store's segments and snapshots.")
	segments := c.gauge("store_segments", "Files of the file store's log and of large messages.")
	unsynced := c.gauge("store_unsynced_bytes", "What the file store has written and not synced yet.")
	resident := c.gauge("store_memory_bytes", "Messages that the file store keeps in memory too.")
	m.register(&c, func(s scrape) {
		u := usage()
		bytes(s, float64(u.Bytes))
		segments(s, float64(u.Segments))
		unsynced(s, float64(u.Unsynced))
		resident(s, float64(u.Resident))
	})
}
