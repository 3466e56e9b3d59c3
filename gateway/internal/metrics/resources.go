package metrics

import (
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/store/file"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
)

// Memory shows how much of the gateway's memory is in use.
func (m *Metrics) Memory(messages, connections *fair.Pool, usage func() memory.Usage) {
	var c collector
	used := c.gauge("memory_used_bytes", "Memory that the gateway uses, without garbage and files that the kernel keeps.")
	available := c.gauge("memory_limit_bytes", "How much it may use.")
	level := c.gauge("memory_level", "0: normal, 1: more than half is used, 2: sends of those who have sent much are refused, 3: those of all.")
	standing := c.gauge("connection_memory_bytes", "Memory of connections, sessions and links.")
	standingLimit := c.gauge("connection_memory_limit_bytes", "How much there may be of it.")
	held := c.gauge("message_memory_bytes", "Memory of messages in progress.")
	limit := c.gauge("message_memory_limit_bytes", "How much there may be of it.")
	waiting := c.gauge("message_memory_waiting_connections", "Connections that are not read because it is in use.")
	refused := c.counter("message_memory_refusals_total", "Messages and requests that were refused because it was in use.")
	m.register(&c, func(s scrape) {
		u := usage()
		used(s, float64(u.Used))
		available(s, float64(u.Limit))
		level(s, float64(u.Level))
		of := connections.Stats()
		standing(s, float64(of.Held))
		standingLimit(s, float64(of.Limit))
		of = messages.Stats()
		held(s, float64(of.Held))
		limit(s, float64(of.Limit))
		waiting(s, float64(of.Waiting))
		refused(s, float64(of.Refused))
	})
}

// Disk shows how much the file store takes on the disk and in memory.
func (m *Metrics) Disk(usage func() file.Usage) {
	var c collector
	bytes := c.gauge("store_disk_bytes", "Size of the file store's segments and snapshots.")
	free := c.gauge("store_disk_free_bytes", "What the file system of the file store has left.")
	segments := c.gauge("store_segments", "Files of the file store's log and of large messages.")
	unsynced := c.gauge("store_unsynced_bytes", "What the file store has written and not synced yet.")
	resident := c.gauge("store_memory_bytes", "Messages that the file store keeps in memory too.")
	m.register(&c, func(s scrape) {
		u := usage()
		bytes(s, float64(u.Bytes))
		free(s, float64(u.Free))
		segments(s, float64(u.Segments))
		unsynced(s, float64(u.Unsynced))
		resident(s, float64(u.Resident))
	})
}

// Admission shows how many connections there are, and how much strangers use.
func (m *Metrics) Admission(state func() listen.AdmissionState) {
	var c collector
	connections := c.gauge("open_connections", "Connections that are open, of any protocol and HTTP.")
	strangers := c.gauge("stranger_connections", "Connections without a proven identity.")
	shut := c.counter("shut_connections_total", "Connections without a proven identity that were closed because there were too many strangers, bytes of strangers, or connections.", "of")
	m.register(&c, func(s scrape) {
		held := state()
		connections(s, float64(held.Connections))
		strangers(s, float64(held.Strangers))
		for of, n := range held.Closed {
			shut(s, float64(n), of)
		}
	})
}
