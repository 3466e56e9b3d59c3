package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/bridges/webhooks"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/intercept"
	"github.com/crosstown-mq/crosstown/core/store/file"
	memstore "github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
	"github.com/crosstown-mq/crosstown/gateway/internal/metrics"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

var root = core.Identity{{Policy: "root", Rights: core.AllRights}}

// rig is a broker whose metrics are collected, and the front that a bridge has.
type rig struct {
	*broker.Broker
	metrics *metrics.Metrics
	front   core.Broker
	store   *brittle
	remotes []remote.State // of its namespace
}

// brittle is a store that can be made to fail.
type brittle struct {
	core.Store
	mu  sync.Mutex
	err error
}

func (s *brittle) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *brittle) StatsOf(ctx context.Context, ps []core.Partition) []core.Counted {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return slices.Repeat([]core.Counted{{Err: s.err}}, len(ps))
	}
	return s.Store.StatsOf(ctx, ps)
}

// staged is a broker that seems to have stages.
type staged struct{ *broker.Broker }

func (staged) Stages() []broker.StageCounts {
	return []broker.StageCounts{
		{Entity: "a", Kind: "ingress", Router: "geo", Judged: 5, Dropped: 1, Routed: 2},
		{Entity: "b", Kind: "ingress", Router: "geo", Judged: 7, Parked: 3},
		{Entity: "b", Kind: "schema", Router: "schema", Judged: 9, Mismatched: 2, Rejected: 1},
	}
}

// branch is how the remotes do of a namespace.
func branch() []remote.State {
	return []remote.State{{
		Name: "hq", Connected: true,
		Targets: []remote.Target{{Entity: "orders", Sent: 7, Parked: 1, Delayed: 2, UnderWay: 3, RoundTrip: 20 * time.Millisecond}},
		Sources: []remote.Source{{From: "parts", Attached: true, Received: 9, Repeated: 2, Parked: 1, Behind: 2 * time.Second}},
	}}
}

func newRig(t testing.TB, o metrics.Options) *rig {
	t.Helper()
	return newRigOn(t, o, memstore.New(memstore.Options{}))
}

func newRigOn(t testing.TB, o metrics.Options, store core.Store) *rig {
	t.Helper()
	o.Version = "v1"
	r := &rig{metrics: metrics.New(o), store: &brittle{Store: store}}
	r.Broker = broker.New(r.metrics.Store(r.store), broker.Options{Namespace: "ns"})
	r.metrics.Namespace("ns", staged{r.Broker}, func() []remote.State { return r.remotes })
	r.front = intercept.New(&intercept.Space{Broker: r.Broker}, r.metrics.Protocol("test"))
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = r.Run(ctx) }) // it returns nil
	t.Cleanup(func() { cancel(); run.Wait() })
	return r
}

func (r *rig) create(t testing.TB, name string, change ...func(*core.Settings)) {
	t.Helper()
	s := core.DefaultSettings(core.Queue)
	for _, c := range change {
		c(&s)
	}
	if _, err := r.CreateEntity(context.Background(), root, core.Queue, name, s, nil); err != nil {
		t.Fatal(err)
	}
}

// sendTo sends a message to each session, but not through the front.
func (r *rig) sendTo(t testing.TB, name string, sessions ...string) {
	t.Helper()
	s, err := r.OpenSender(context.Background(), root, core.At(name), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, id := range sessions {
		if a := s.Send(context.Background(), [][]*core.Message{{{SessionID: id}}}); a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
	}
}

func (r *rig) send(t testing.TB, name string, n int) {
	t.Helper()
	s, err := r.front.OpenSender(context.Background(), root, core.At(name), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range n {
		if a := s.Send(context.Background(), [][]*core.Message{{{}}}); a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
	}
}

// scrape is what Prometheus gets, read as it reads.
type scrape map[string]*dto.MetricFamily

func (r *rig) scrape(t testing.TB) (scrape, string) {
	t.Helper()
	w := httptest.NewRecorder()
	r.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil || w.Code != 200 {
		t.Fatalf("scrape: %d, %v\n%s", w.Code, err, text)
	}
	return families, text
}

// sum adds up the metrics of a name that have all the labels, given as name, value pairs.
func (s scrape) sum(name string, labels ...string) (total float64) {
	for _, m := range s[name].GetMetric() {
		if has(m, labels) {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return total
}

func has(m *dto.Metric, labels []string) bool {
	for i := 0; i < len(labels); i += 2 {
		found := false
		for _, l := range m.GetLabel() {
			found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}

// values are a label's values, over all metrics.
func (s scrape) values(label string) map[string]bool {
	all := map[string]bool{}
	for _, f := range s {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == label {
					all[l.GetValue()] = true
				}
			}
		}
	}
	return all
}

func TestAScrapeKeepsToTheConventions(t *testing.T) {
	t.Parallel()
	r := newRig(t, metrics.Options{})
	r.remotes = branch()
	r.Select(broker.Selected{
		CircuitBreakers: []broker.For[broker.Breaker]{{Entity: "q", Set: broker.Breaker{Failures: 1, Of: 1, Consecutive: 1, Pause: time.Second}}},
		RateLimits:      []broker.For[core.Rate]{{Entity: "q", Set: core.Rate{Every: time.Second, Burst: 1}}},
	})
	r.create(t, "q")
	r.send(t, "q", 3)
	r.create(t, "s", func(s *core.Settings) { s.RequiresSession = true })
	r.sendTo(t, "s", "a", "b", "c")
	held, err := r.AcceptSession(t.Context(), root, core.At("s"), core.SessionOptions{ID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	r.metrics.Flushes(func() []redis.Flushes {
		return []redis.Flushes{{Operation: "append", Bounds: []int{1, 2}, Counts: []uint64{4, 0, 1}, Items: 14}}
	})
	r.metrics.Failures(func() []redis.Failure { return []redis.Failure{{Cause: "out-of-memory", Count: 3}} })
	r.metrics.Clients(func() int64 { return 6 }, census)
	r.metrics.Disk(func() file.Usage { return file.Usage{Bytes: 1 << 20} })
	r.metrics.Memory(fair.New(0, nil, nil), fair.New(0, nil, nil), func() memory.Usage { return memory.Usage{Level: fair.Tight, Used: 3, Limit: 4} })
	r.metrics.Admission(func() listen.AdmissionState { return listen.AdmissionState{Closed: map[string]uint64{"strangers": 1}} })
	answered := r.metrics.HTTP()
	r.metrics.KeyTries(func() uint64 { return 5 })
	shop := webhooks.NewPush(webhooks.PushOptions{Name: "shop", Namespace: "ns"})
	r.metrics.Pushes(func() []*webhooks.Push { return []*webhooks.Push{shop} })
	answered("send", 201)
	answered("send", 201)
	answered("/$crosstown/ws", 101)
	r.metrics.Plugins(func() []host.State {
		return []host.State{{Name: "geo", Condition: host.Ready, Launches: 2, Calls: host.Calls{Answered: 5, Late: 1, Messages: 9}}}
	})
	if _, err := r.front.OpenSender(t.Context(), root, core.At("none"), nil); err == nil {
		t.Error("a sender was opened on nothing")
	}
	got, text := r.scrape(t)
	checkDocumented(t, got)
	checkAlerts(t, got)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "crosstown_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"crosstown_build_info", []string{"version", "v1"}, 1},
		{"crosstown_store_up", []string{"namespace", "ns"}, 1},
		{"crosstown_namespaces", nil, 1},
		{"crosstown_entities", []string{"kind", "queue"}, 2},
		{"crosstown_entity_messages", []string{"entity", "q", "queue", "main", "state", "ready"}, 3},
		{"crosstown_entity_messages", nil, 6},
		{"crosstown_entity_enqueued_total", []string{"entity", "q"}, 3},
		{"crosstown_accepted_messages_total", []string{"entity", "q"}, 3},
		{"crosstown_operations_total", []string{"protocol", "test", "operation", "send"}, 3},
		{"crosstown_sent_messages_total", []string{"protocol", "test"}, 3},
		{"crosstown_store_call_duration_seconds", []string{"call", "append"}, 6},
		{"crosstown_store_call_messages", []string{"call", "append"}, 6},
		{"crosstown_redis_flush_items", []string{"call", "append"}, 5},
		{"crosstown_connections", []string{"protocol", "amqp_over_websocket"}, 1},
		{"crosstown_connections", []string{"protocol", "websocket"}, 0},
		{"crosstown_connections_closed_by_operators_total", nil, 6},
		{"crosstown_amqp_sessions", []string{"protocol", "amqp"}, 3},
		{"crosstown_amqp_sessions", nil, 5},
		{"crosstown_remote_connected", []string{"namespace", "ns", "remote", "hq"}, 1},
		{"crosstown_remote_sent_messages_total", []string{"remote", "hq", "entity", "orders", "result", "taken"}, 7},
		{"crosstown_remote_under_way_messages", []string{"remote", "hq", "entity", "orders"}, 3},
		{"crosstown_remote_round_trip_seconds", []string{"remote", "hq", "entity", "orders"}, 0.02},
		{"crosstown_remote_pulled_messages_total", []string{"remote", "hq", "entity", "parts", "result", "stored"}, 7},
		{"crosstown_remote_pulled_messages_total", []string{"result", "repeated"}, 2},
		{"crosstown_remote_source_attached", []string{"entity", "parts"}, 1},
		{"crosstown_remote_pull_delay_seconds", []string{"entity", "parts"}, 2},
		{"crosstown_http_requests_total", []string{"route", "send", "status", "201"}, 2},
		{"crosstown_http_requests_total", nil, 3},
		{"crosstown_http_streams", nil, 4},
		{"crosstown_key_tries_total", nil, 5},
		{"crosstown_entity_sessions", []string{"entity", "s", "state", "held"}, 1},
		{"crosstown_entity_sessions", []string{"entity", "s", "state", "waiting"}, 2},
		{"crosstown_entity_sessions", nil, 3},
		{"crosstown_links", []string{"direction", "receive"}, 2},
		{"crosstown_links", []string{"direction", "send"}, 1},
		{"crosstown_link_sessions", nil, 1},
		{"crosstown_plugin_ready", []string{"plugin", "geo"}, 1},
		{"crosstown_stage_messages_total", []string{"stage", "ingress", "plugin", "geo", "result", "passed"}, 11},
		{"crosstown_stage_messages_total", nil, 24},
		{"crosstown_schema_mismatches_total", nil, 2},
		{"crosstown_stage_routed_messages_total", nil, 2},
		{"crosstown_plugin_calls_total", []string{"plugin", "geo", "result", "late"}, 1},
	} {
		if v := got.sum(c.name, c.labels...); got[c.name] == nil || v != c.want {
			t.Errorf("%s%v: got %v, want %v", c.name, c.labels, v, c.want)
		}
	}
	if got["go_goroutines"] == nil || got["process_cpu_seconds_total"] == nil {
		t.Error("the Go runtime or the process is missing")
	}
}

// checkDocumented compares the names with those in the documentation.
func checkDocumented(t *testing.T, got scrape) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, name := range regexp.MustCompile("`(crosstown_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		documented[name[1]] = true
		if got[name[1]] == nil {
			t.Errorf("%s is in the documentation, not in the scrape", name[1])
		}
	}
	for name := range got {
		if strings.HasPrefix(name, "crosstown_") && !documented[name] {
			t.Errorf("%s is not in the documentation", name)
		}
	}
}

func census() []bridges.Connection {
	return []bridges.Connection{
		{Protocol: "amqp", Sessions: 3, Links: []bridges.Link{{Entity: "q", Direction: bridges.Sends}, {Entity: "q", Direction: bridges.Receives}}},
		{Protocol: "event stream"},
		{Protocol: "event stream"},
		{Protocol: "event stream"},
		{Protocol: "event stream"},
		{Protocol: "amqp over websocket", Sessions: 2, Links: []bridges.Link{{Entity: "s", Direction: bridges.Receives, Session: new("a")}}},
	}
}

func TestTheAgeOfTheOldestMessageGrows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, metrics.Options{})
		r.create(t, "q")
		r.create(t, "empty")
		r.send(t, "q", 1)
		time.Sleep(90 * time.Second)
		got, _ := r.scrape(t)
		if age := got.sum("crosstown_entity_oldest_message_age_seconds"); age != 90 {
			t.Errorf("got %v s, want 90 s, of one entity alone", age)
		}
	})
}

func TestTheStoreIsCountedSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, metrics.Options{Refresh: time.Minute})
		r.create(t, "q")
		r.scrape(t)
		r.send(t, "q", 2)
		if got, _ := r.scrape(t); got.sum("crosstown_entity_messages") != 0 || got.sum("crosstown_accepted_messages_total") != 2 {
			t.Error("the store was counted again, or this gateway's counters were not read")
		}
		time.Sleep(time.Minute)
		if got, _ := r.scrape(t); got.sum("crosstown_entity_messages") != 2 {
			t.Error("the store was not counted again")
		}

		r.store.fail(errors.New("no connection"))
		time.Sleep(time.Minute)
		r.scrape(t) // which may show calls before it counts, and so the failure at the next one
		got, _ := r.scrape(t)
		if got.sum("crosstown_store_up") != 0 || got.sum("crosstown_entity_messages") != 2 || got.sum("crosstown_store_call_failures_total", "call", "stats") == 0 {
			t.Error("the store is down, and that does not show")
		}
	})
}

// Whatever entities there are and were, so many have series of their own, the
// same ones as long as they exist.
func TestEntitiesBeyondTheBoundAreAddedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const bound, count = 5, 12
		r := newRig(t, metrics.Options{MaxEntities: bound})
		for i := range count {
			r.create(t, fmt.Sprintf("q%02d", i))
		}
		check := func(wantOwn string, wantOthers float64) {
			t.Helper()
			time.Sleep(time.Minute)
			got, _ := r.scrape(t)
			own := got.values("entity")
			delete(own, "_other")
			if len(own) != bound || !own[wantOwn] {
				t.Errorf("entities with series: got %v, want %d, %s among them", own, bound, wantOwn)
			}
			if n := got.sum("crosstown_accepted_messages_total", "entity", "_other"); n != wantOthers {
				t.Errorf("messages of others: got %v, want %v", n, wantOthers)
			}
			if n := got.sum("crosstown_entities", "kind", "queue"); n < bound {
				t.Errorf("queues: got %v", n)
			}
		}
		for i := range count {
			r.send(t, fmt.Sprintf("q%02d", i), 1)
		}
		check("q04", count-bound)
		r.create(t, "a") // in front of the others, but late
		r.send(t, "a", 1)
		check("q04", count-bound+1)
		if err := r.DeleteEntity(t.Context(), root, "q00"); err != nil {
			t.Fatal(err)
		}
		check("a", count-bound)
	})
}

func TestRefusalsAreCountedByCode(t *testing.T) {
	t.Parallel()
	r := newRig(t, metrics.Options{})
	r.create(t, "q")
	ctx := t.Context()
	if _, err := r.front.OpenSender(ctx, nil, core.At("q"), nil); core.CodeOf(err) != core.Unauthorized {
		t.Fatal(err)
	}
	if _, err := r.front.OpenReceiver(ctx, root, core.At("none"), core.ReceiverOptions{}); core.CodeOf(err) != core.NotFound {
		t.Fatal(err)
	}
	r.front.Settle(ctx, root, core.At("q"), []core.Settlement{{Token: core.NewLockToken(0, 1, 1)}, {Token: core.NewLockToken(0, 2, 1)}})
	sender, err := r.OpenSender(ctx, root, core.At("q"), nil)
	if err != nil {
		t.Fatal(err)
	}
	later := &core.Message{ScheduledEnqueueTime: time.Now().Add(time.Hour)}
	scheduled := sender.Send(ctx, [][]*core.Message{{later}})[0].Numbers
	tx := r.front.Begin()
	if err := tx.Cancel(ctx, root, core.At("q"), scheduled); err != nil {
		t.Fatal(err)
	}
	if err := r.Cancel(ctx, root, core.At("q"), scheduled); err != nil { // before the transaction does
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); core.CodeOf(err) != core.MessageNotFound {
		t.Fatal(err)
	}
	got, _ := r.scrape(t)
	for _, want := range []struct {
		operation, code string
		n               float64
	}{{"open_sender", "unauthorized", 1}, {"open_receiver", "not_found", 1}, {"settle", "lock_lost", 2}, {"commit", "message_not_found", 1}} {
		if n := got.sum("crosstown_refusals_total", "operation", want.operation, "code", want.code); n != want.n {
			t.Errorf("%s %s: got %v, want %v", want.operation, want.code, n, want.n)
		}
		if n := got.sum("crosstown_operations_total", "operation", want.operation); n != want.n {
			t.Errorf("%s: got %v, want %v", want.operation, n, want.n)
		}
	}
	if n := got.sum("crosstown_refusals_total"); n != 5 {
		t.Errorf("all refusals: got %v, want 5", n)
	}
}
