package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/internal/bench"
)

func standard() *options {
	return &options{scenarios: peersGroup, rounds: 3, settle: "first"}
}

func TestAPlanNamesEveryProblem(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*options)
		want   []string // one per problem; none: valid
	}{
		{"standard", func(*options) {}, nil},
		{"scale", func(o *options) { o.scenarios, o.write = scaleGroup, true }, nil},
		{"both", func(o *options) { o.scenarios, o.write = "peers,scale", true }, nil},
		{"some", func(o *options) { o.systems, o.scenarios = "memory, nats", "lone,queues-10" }, nil},
		{"unknown", func(o *options) { o.systems, o.scenarios = "kafka", "fast" }, []string{"-systems kafka", "-scenarios fast"}},
		{"numbers", func(o *options) { o.rounds, o.messages, o.settle = 0, -1, "each" }, []string{"-rounds 0", "-messages -1", `-settle "each"`}},
		{"part of a table", func(o *options) { o.scenarios, o.write = "lone", true }, []string{"-write replaces"}},
		{"part of the systems", func(o *options) { o.systems, o.write = "memory", true }, []string{"-write replaces"}},
		{"fewer messages", func(o *options) { o.messages, o.write = 10, true }, []string{"-write replaces"}},
		{"nothing", func(o *options) { o.systems, o.scenarios = "nats", "sessions" }, []string{"none of these scenarios"}},
	} {
		o := standard()
		tt.change(o)
		_, err := newPlan(o)
		if (err == nil) != (tt.want == nil) {
			t.Errorf("%s: got %v, want problems %q", tt.name, err, tt.want)
			continue
		}
		for i, want := range tt.want {
			if lines := strings.Split(err.Error(), "\n"); len(lines) != len(tt.want) || !strings.Contains(lines[i], want) {
				t.Errorf("%s: got %q, want one line each of %q", tt.name, lines, tt.want)
			}
		}
	}
}

func TestAShortRunOfThePeersTakesTwentyMinutes(t *testing.T) {
	t.Parallel()
	p, err := newPlan(standard())
	if err != nil {
		t.Fatal(err)
	}
	if got := 3 * (p.estimate(p.cells()) + startShare); got > 20*time.Minute {
		t.Errorf("three rounds take about %v", got)
	}
}

func TestScenariosAreValid(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, sc := range scenarios {
		if names[sc.name] || sc.name == sc.group || strings.ContainsAny(sc.name, " ,.") {
			t.Errorf("%s: a name of its own, without separators", sc.name)
		}
		names[sc.name] = true
		for _, name := range sc.systems {
			if _, err := newPlan(&options{systems: name, scenarios: sc.name, rounds: 1, settle: "first"}); err != nil {
				t.Errorf("%s: %v", sc.name, err)
			}
		}
		found := 0
		for _, q := range allQueues(sc.setup) {
			if q.scenario == sc {
				found++
			}
		}
		if found != max(sc.queues, 1) {
			t.Errorf("%s has %d queues, want %d", sc.name, found, max(sc.queues, 1))
		}
	}
	for _, c := range slices.Concat(headlines, growth) {
		if !names[c.scenario] {
			t.Errorf("the column %q has no scenario", c.title)
		}
	}
}

func TestASystemThatSyncsEachMessageSendsFewer(t *testing.T) {
	t.Parallel()
	counted, timed := &scenario{messages: 100}, &scenario{}
	fast, slow := &system{}, &system{share: 20}
	for _, tt := range []struct {
		cell     cell
		messages int64
		want     int64
	}{
		{cell{counted, fast}, 0, 100},
		{cell{counted, slow}, 0, 5},
		{cell{counted, fast}, 1000, 1000},
		{cell{counted, slow}, 10, 1},
		{cell{timed, fast}, 1000, 0},
		{cell{timed, slow}, 1000, 0},
	} {
		if got := tt.cell.count(&options{messages: tt.messages}); got != tt.want {
			t.Errorf("%+v of %d: got %d, want %d", *tt.cell.system, tt.messages, got, tt.want)
		}
	}
}

func TestAReportCountsOnlyIfTheBooksBalance(t *testing.T) {
	t.Parallel()
	good := bench.Report{Mode: bench.Throughput, Verified: true, Acknowledged: 10, Received: 10, Settled: 10}
	for name, change := range map[string]func(*bench.Report){
		"lost":         func(r *bench.Report) { r.Lost = 1 },
		"doubled":      func(r *bench.Report) { r.Doubled = 1 },
		"fewer":        func(r *bench.Report) { r.Acknowledged, r.Received, r.Settled = 9, 9, 9 },
		"not received": func(r *bench.Report) { r.Received, r.Settled = 9, 9 },
		"not accepted": func(r *bench.Report) { r.Settled = 9 },
		"not verified": func(r *bench.Report) { r.Verified = false },
		"others'":      func(r *bench.Report) { r.Stale = 1 },
	} {
		c, r := cell{&scenario{messages: 10}, &system{}}, good
		if err := c.check(&r, &options{}); err != nil {
			t.Errorf("good: %v", err)
		}
		if change(&r); c.check(&r, &options{}) == nil {
			t.Errorf("%s: it counts", name)
		}
	}
}

func TestMetricsTellTheClientFromTheBroker(t *testing.T) {
	t.Parallel()
	r := &bench.Report{
		Mode: bench.Throughput, ReceiveRate: 5, Conns: 2, Seconds: 2,
		EndToEnd: bench.Percentiles{P50: 100, P99: 900},
		Phases:   []bench.Phase{{Messages: 10, Seconds: 2}, {Messages: 10, Seconds: 5, Processes: []bench.Charge{{Name: "bench", MicrosPerMessage: 7}, {Name: "x", MicrosPerMessage: 9}}}},
		Processes: []bench.Charge{
			{Name: "bench", MicrosPerMessage: 1, CPUSeconds: 1, ResidentBytes: 1 << 30, GrownBytes: 1 << 30},
			{Name: "crosstown", MicrosPerMessage: 2, CPUSeconds: 2, ResidentBytes: 2 << 20, GrownBytes: 4 << 10},
			{Name: "redis-server", MicrosPerMessage: 3, CPUSeconds: 4, ResidentBytes: 3 << 20, GrownBytes: 2 << 10},
		},
	}
	want := map[*metric]float64{cpu: 5, client: 1, rate: 5, p50: 0.1, p99: 0.9, fill: 5, drain: 2, resident: 5, idleCPU: 3000, perConnection: 3}
	for m, want := range want {
		if got := m.of(r); got != want {
			t.Errorf("%s: got %v, want %v", m.title, got, want)
		}
	}
	r.Mode, r.Sessions = bench.Sessions, bench.Percentiles{P50: 2000}
	for m, want := range map[*metric]float64{cpu: 9, client: 7, rate: 2, p50: 2} {
		if got := m.of(r); got != want {
			t.Errorf("sessions, %s: got %v, want %v", m.title, got, want)
		}
	}
}
