package metrics

import (
	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/bridges/webhooks"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/store/file"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

func (m *Metrics) Plugins(states func() []host.State) {
	m.register(func(s *scrape) {
		for _, p := range states() {
			s.gauge("plugin_ready", "1 if the plugin answers.", truth(p.Condition == host.Ready), "plugin", p.Name)
			for result, n := range map[string]int64{"answered": p.Calls.Answered, "late": p.Calls.Late, "failed": p.Calls.Failed} {
				s.counter("plugin_calls_total", "Calls of the plugin, by result: answered, late or failed.", float64(n), "plugin", p.Name, "result", result)
			}
			s.counter("plugin_messages_total", "Messages that the plugin has answered.", float64(p.Calls.Messages), "plugin", p.Name)
			s.gauge("plugin_waiting_messages", "Messages that wait for the plugin.", float64(p.Calls.Waiting), "plugin", p.Name)
			s.counter("plugin_launches_total", "How often the plugin's process has started.", float64(p.Launches), "plugin", p.Name)
		}
	})
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func newStages(namespace string, counts func() []broker.StageCounts) *collector {
	return inNamespace(namespace, func(s *scrape) {
		for _, n := range counts() {
			for result, count := range map[string]int64{
				"passed":  max(n.Judged-n.Dropped-n.DeadLettered-n.Rejected, 0),
				"dropped": n.Dropped, "dead_lettered": n.DeadLettered, "rejected": n.Rejected,
				"parked": n.Parked, "passed_unjudged": n.Passed, "refused": n.Refused,
			} {
				s.counter("stage_messages_total", "Decisions of the stages of pipelines, by result.", float64(count), "stage", n.Kind, "plugin", n.Router, "result", result)
			}
			if n.Kind == core.StageSchema.String() {
				s.counter("schema_mismatches_total", "Messages that did not match the schema of their queue or topic, whether the gateway refused or accepted them.", float64(n.Mismatched))
			}
			s.counter("stage_routed_messages_total", "Messages that a stage routed to other entities, whether or not this entity also keeps them.", float64(n.Routed), "stage", n.Kind, "plugin", n.Router)
		}
	})
}

func newRemotes(namespace string, states func() []remote.State) *collector {
	return inNamespace(namespace, func(s *scrape) {
		for _, r := range states() {
			s.gauge("remote_connected", "1 if there is a connection to the remote.", truth(r.Connected), "remote", r.Name)
			for _, t := range r.Targets {
				for result, n := range map[string]int64{"taken": t.Sent, "parked": t.Parked, "delayed": t.Delayed} {
					s.counter("remote_sent_messages_total", "Messages sent to an entity of the remote, by result: taken, parked because the remote can never accept them, or delayed.", float64(n), "remote", r.Name, "entity", t.Entity, "result", result)
				}
				s.gauge("remote_under_way_messages", "Messages sent to an entity of the remote but not answered yet.", float64(t.UnderWay), "remote", r.Name, "entity", t.Entity)
				s.gauge("remote_round_trip_seconds", "Smoothed time from sending a message to the answer.", t.RoundTrip.Seconds(), "remote", r.Name, "entity", t.Entity)
			}
			for _, from := range r.Sources {
				s.gauge("remote_source_attached", "1 if messages can be pulled from the entity of the remote.", truth(from.Attached), "remote", r.Name, "entity", from.From)
				for result, n := range map[string]int64{"stored": from.Received - from.Repeated, "repeated": from.Repeated, "parked": from.Parked} {
					s.counter("remote_pulled_messages_total", "Messages pulled from an entity of the remote, by result: stored, repeated because they were stored before, or parked at the remote.", float64(n), "remote", r.Name, "entity", from.From, "result", result)
				}
				s.gauge("remote_pull_delay_seconds", "Age of the last pulled message when it was stored here.", from.Behind.Seconds(), "remote", r.Name, "entity", from.From)
			}
		}
	})
}

func (m *Metrics) Pushes(list func() []*webhooks.Push) {
	m.register(func(s *scrape) {
		for _, each := range list() {
			p := each.State()
			for result, n := range map[string]int64{"delivered": p.Delivered, "failed": p.Failed, "dead_lettered": p.DeadLettered} {
				s.counter("push_attempts_total", "Requests of a push, by result: delivered, failed (the gateway retries) or dead_lettered.", float64(n), "namespace", each.Namespace, "push", p.Name, "result", result)
			}
			s.gauge("push_under_way_requests", "Requests of a push that are not answered yet.", float64(p.UnderWay), "namespace", each.Namespace, "push", p.Name)
		}
	})
}

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
