package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/crosstown-mq/crosstown/bridges/remote"
)

// remotes shows how other brokers do that are a namespace's.
type remotes struct {
	states                                                        func() []remote.State
	connected, sent, underWay, trip, attached, pulled, behindness *prometheus.Desc
}

// newRemotes shows the states that states returns of a namespace.
func newRemotes(namespace string, states func() []remote.State) *remotes {
	of := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+"_"+name, help, labels, prometheus.Labels{"namespace": namespace})
	}
	return &remotes{
		states:     states,
		connected:  of("remote_connected", "Whether there is a connection to the remote.", "remote"),
		sent:       of("remote_sent_messages_total", "Messages sent to an entity of the remote: taken, parked because it will never take them, or delayed.", "remote", "entity", "result"),
		underWay:   of("remote_under_way_messages", "Messages sent to an entity of the remote that are not answered yet.", "remote", "entity"),
		trip:       of("remote_round_trip_seconds", "Time from sending to the answer, smoothed.", "remote", "entity"),
		attached:   of("remote_source_attached", "Whether messages can be pulled from the entity of the remote.", "remote", "entity"),
		pulled:     of("remote_pulled_messages_total", "Messages pulled from an entity of the remote: stored, repeated because they had been, or parked there.", "remote", "entity", "result"),
		behindness: of("remote_pull_delay_seconds", "How old the last message was when it was stored here.", "remote", "entity"),
	}
}

// Describe implements prometheus.Collector.
func (r *remotes) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{r.connected, r.sent, r.underWay, r.trip, r.attached, r.pulled, r.behindness} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (r *remotes) Collect(ch chan<- prometheus.Metric) {
	for _, s := range r.states() {
		gauge(ch, r.connected, truth(s.Connected), s.Name)
		for _, t := range s.Targets {
			counter(ch, r.sent, float64(t.Sent), s.Name, t.Entity, "taken")
			counter(ch, r.sent, float64(t.Parked), s.Name, t.Entity, "parked")
			counter(ch, r.sent, float64(t.Delayed), s.Name, t.Entity, "delayed")
			gauge(ch, r.underWay, float64(t.UnderWay), s.Name, t.Entity)
			gauge(ch, r.trip, t.RoundTrip.Seconds(), s.Name, t.Entity)
		}
		for _, from := range s.Sources {
			gauge(ch, r.attached, truth(from.Attached), s.Name, from.From)
			counter(ch, r.pulled, float64(from.Received-from.Repeated), s.Name, from.From, "stored")
			counter(ch, r.pulled, float64(from.Repeated), s.Name, from.From, "repeated")
			counter(ch, r.pulled, float64(from.Parked), s.Name, from.From, "parked")
			gauge(ch, r.behindness, from.Behind.Seconds(), s.Name, from.From)
		}
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
