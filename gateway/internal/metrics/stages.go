package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/crosstown-mq/crosstown/core/broker"
)

// stages shows what pipelines do.
type stages struct {
	counts           func() []broker.StageCounts
	messages, routed *prometheus.Desc
}

// newStages shows what counts returns of a namespace, added up over entities.
func newStages(namespace string, counts func() []broker.StageCounts) *stages {
	of := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+"_"+name, help, labels, prometheus.Labels{"namespace": namespace})
	}
	return &stages{
		counts:   counts,
		messages: of("stage_messages_total", "Messages that came to a stage of a pipeline, by what became of them there.", "stage", "plugin", "result"),
		routed:   of("stage_routed_messages_total", "Messages that a stage sent to other entities, kept here beside that or not.", "stage", "plugin"),
	}
}

// Describe implements prometheus.Collector.
func (s *stages) Describe(ch chan<- *prometheus.Desc) {
	ch <- s.messages
	ch <- s.routed
}

// Collect implements prometheus.Collector.
func (s *stages) Collect(ch chan<- prometheus.Metric) {
	type stage struct{ kind, plugin string }
	sums := map[stage]*broker.StageCounts{}
	for _, c := range s.counts() {
		at := stage{c.Kind, c.Router}
		sum := sums[at]
		if sum == nil {
			sum = &broker.StageCounts{}
			sums[at] = sum
		}
		sum.Judged += c.Judged
		sum.Dropped += c.Dropped
		sum.DeadLettered += c.DeadLettered
		sum.Routed += c.Routed
		sum.Parked += c.Parked
		sum.Passed += c.Passed
		sum.Refused += c.Refused
	}
	for at, sum := range sums {
		counter(ch, s.routed, float64(sum.Routed), at.kind, at.plugin)
		for _, each := range []struct {
			result string
			n      int64
		}{
			{"passed", max(sum.Judged-sum.Dropped-sum.DeadLettered, 0)},
			{"dropped", sum.Dropped},
			{"dead_lettered", sum.DeadLettered},
			{"parked", sum.Parked},
			{"passed_unjudged", sum.Passed},
			{"refused", sum.Refused},
		} {
			counter(ch, s.messages, float64(each.n), at.kind, at.plugin, each.result)
		}
	}
}
