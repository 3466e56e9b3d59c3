package metrics

import (
	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/bridges/webhooks"
)

func newRemotes(namespace string, states func() []remote.State) *collector {
	c := inNamespace(namespace)
	connected := c.gauge("remote_connected", "1 if there is a connection to the remote.", "remote")
	sent := c.counter("remote_sent_messages_total", "Messages sent to an entity of the remote, by result: taken, parked because the remote can never accept them, or delayed.", "remote", "entity", "result")
	underWay := c.gauge("remote_under_way_messages", "Messages sent to an entity of the remote but not answered yet.", "remote", "entity")
	trip := c.gauge("remote_round_trip_seconds", "Smoothed time from sending a message to the answer.", "remote", "entity")
	attached := c.gauge("remote_source_attached", "1 if messages can be pulled from the entity of the remote.", "remote", "entity")
	pulled := c.counter("remote_pulled_messages_total", "Messages pulled from an entity of the remote, by result: stored, repeated because they were stored before, or parked at the remote.", "remote", "entity", "result")
	behind := c.gauge("remote_pull_delay_seconds", "Age of the last pulled message when it was stored here.", "remote", "entity")
	c.collect = func(s scrape) {
		for _, r := range states() {
			connected(s, truth(r.Connected), r.Name)
			for _, t := range r.Targets {
				sent(s, float64(t.Sent), r.Name, t.Entity, "taken")
				sent(s, float64(t.Parked), r.Name, t.Entity, "parked")
				sent(s, float64(t.Delayed), r.Name, t.Entity, "delayed")
				underWay(s, float64(t.UnderWay), r.Name, t.Entity)
				trip(s, t.RoundTrip.Seconds(), r.Name, t.Entity)
			}
			for _, from := range r.Sources {
				attached(s, truth(from.Attached), r.Name, from.From)
				pulled(s, float64(from.Received-from.Repeated), r.Name, from.From, "stored")
				pulled(s, float64(from.Repeated), r.Name, from.From, "repeated")
				pulled(s, float64(from.Parked), r.Name, from.From, "parked")
				behind(s, from.Behind.Seconds(), r.Name, from.From)
			}
		}
	}
	return c
}

func (m *Metrics) Pushes(list func() []*webhooks.Push) {
	var c collector
	attempts := c.counter("push_attempts_total", "Requests of a push, by result: delivered, failed (the gateway retries) or dead_lettered.", "namespace", "push", "result")
	underWay := c.gauge("push_under_way_requests", "Requests of a push that are not answered yet.", "namespace", "push")
	m.register(&c, func(s scrape) {
		for _, each := range list() {
			p := each.State()
			attempts(s, float64(p.Delivered), each.Namespace, p.Name, "delivered")
			attempts(s, float64(p.Failed), each.Namespace, p.Name, "failed")
			attempts(s, float64(p.DeadLettered), each.Namespace, p.Name, "dead_lettered")
			underWay(s, float64(p.UnderWay), each.Namespace, p.Name)
		}
	})
}
