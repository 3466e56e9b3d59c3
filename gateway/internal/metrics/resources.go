package metrics

import (
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/store/file"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
)

func (m *Metrics) Memory(messages, connections *fair.Pool, usage func() memory.Usage) {
	m.register(func(s *scrape) {
		u := usage()
		s.gauge("memory_used_bytes", "Memory that the gateway uses, without garbage and the kernel's page cache.", float64(u.Used))
		s.gauge("memory_limit_bytes", "Limit of the memory that the gateway uses.", float64(u.Limit))
		s.gauge("memory_level", "0: normal, 1: more than half of the memory is used, 2: the gateway answers busy to policies that sent much, 3: the gateway answers busy to all policies.", float64(u.Level))
		of := connections.Stats()
		s.gauge("connection_memory_bytes", "Memory of connections, sessions, links and feeds.", float64(of.Held))
		s.gauge("connection_memory_limit_bytes", "Limit of the memory of connections, sessions, links and feeds.", float64(of.Limit))
		of = messages.Stats()
		s.gauge("message_memory_bytes", "Memory of messages in progress.", float64(of.Held))
		s.gauge("message_memory_limit_bytes", "Limit of the memory of messages in progress.", float64(of.Limit))
		s.gauge("message_memory_waiting_connections", "Connections that the gateway does not read because the memory of messages in progress is used up.", float64(of.Waiting))
		s.counter("message_memory_refusals_total", "Messages and requests that the gateway refused because the memory of messages in progress was used up.", float64(of.Refused))
	})
}

func (m *Metrics) Disk(usage func() file.Usage) {
	m.register(func(s *scrape) {
		u := usage()
		s.gauge("store_disk_bytes", "Size of the file store's segments and snapshots.", float64(u.Bytes))
		s.gauge("store_disk_free_bytes", "Free space of the file store's file system.", float64(u.Free))
		s.gauge("store_segments", "Files of the file store's log and of large messages.", float64(u.Segments))
		s.gauge("store_unsynced_bytes", "Bytes that the file store has written but not synced yet.", float64(u.Unsynced))
		s.gauge("store_memory_bytes", "Bytes of messages that the file store caches.", float64(u.Resident))
	})
}

func (m *Metrics) Admission(state func() listen.AdmissionState) {
	m.register(func(s *scrape) {
		held := state()
		s.gauge("open_connections", "Open connections of all protocols, including HTTP.", float64(held.Connections))
		s.gauge("stranger_connections", "Open connections without a proven identity.", float64(held.Strangers))
		for of, n := range held.Closed {
			s.counter("shut_connections_total", "Connections without a proven identity that were closed because of a limit: of their number, of their bytes, or of open files.", float64(n), "of", of)
		}
	})
}
