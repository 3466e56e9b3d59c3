package metrics

import (
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/store/file"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
)

func (m *Metrics) Memory(messages, connections *fair.Pool, usage func() memory.Usage) {
	var c collector
	used := c.gauge("memory_used_bytes", "Memory that the gateway uses, without garbage and the kernel's page cache.")
	available := c.gauge("memory_limit_bytes", "Limit of the memory that the gateway uses.")
	level := c.gauge("memory_level", "0: normal, 1: more than half of the memory is used, 2: the gateway answers busy to policies that sent much, 3: the gateway answers busy to all policies.")
	standing := c.gauge("connection_memory_bytes", "Memory of connections, sessions, links and feeds.")
	standingLimit := c.gauge("connection_memory_limit_bytes", "Limit of the memory of connections, sessions, links and feeds.")
	held := c.gauge("message_memory_bytes", "Memory of messages in progress.")
	limit := c.gauge("message_memory_limit_bytes", "Limit of the memory of messages in progress.")
	waiting := c.gauge("message_memory_waiting_connections", "Connections that the gateway does not read because the memory of messages in progress is used up.")
	refused := c.counter("message_memory_refusals_total", "Messages and requests that the gateway refused because the memory of messages in progress was used up.")
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

func (m *Metrics) Disk(usage func() file.Usage) {
	var c collector
	bytes := c.gauge("store_disk_bytes", "Size of the file store's segments and snapshots.")
	free := c.gauge("store_disk_free_bytes", "Free space of the file store's file system.")
	segments := c.gauge("store_segments", "Files of the file store's log and of large messages.")
	unsynced := c.gauge("store_unsynced_bytes", "Bytes that the file store has written but not synced yet.")
	resident := c.gauge("store_memory_bytes", "Bytes of messages that the file store caches.")
	m.register(&c, func(s scrape) {
		u := usage()
		bytes(s, float64(u.Bytes))
		free(s, float64(u.Free))
		segments(s, float64(u.Segments))
		unsynced(s, float64(u.Unsynced))
		resident(s, float64(u.Resident))
	})
}

func (m *Metrics) Admission(state func() listen.AdmissionState) {
	var c collector
	connections := c.gauge("open_connections", "Open connections of all protocols, including HTTP.")
	strangers := c.gauge("stranger_connections", "Open connections without a proven identity.")
	shut := c.counter("shut_connections_total", "Connections without a proven identity that were closed because of a limit: of their number, of their bytes, or of open files.", "of")
	m.register(&c, func(s scrape) {
		held := state()
		connections(s, float64(held.Connections))
		strangers(s, float64(held.Strangers))
		for of, n := range held.Closed {
			shut(s, float64(n), of)
		}
	})
}
