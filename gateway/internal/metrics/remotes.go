package metrics

import (
	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/bridges/webhooks"
)

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
