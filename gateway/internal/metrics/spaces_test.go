package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/gateway/internal/metrics"
)

// namespaceSource is a namespace with queues through which as many messages have gone.
type namespaceSource struct {
	queues []string
	err    error

	mu      sync.Mutex
	counted int
}

func (n *namespaceSource) Now() time.Time { return time.Now() }

func (n *namespaceSource) Traffic() []broker.Traffic {
	var all []broker.Traffic
	for _, name := range n.queues {
		all = append(all, broker.Traffic{Entity: name, Accepted: 10})
	}
	return all
}

func (n *namespaceSource) Holdings(ctx context.Context, wanted func(string, core.Kind) bool) ([]broker.Holding, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counted++
	if n.err != nil { // the store does not answer
		<-ctx.Done()
		return nil, n.err
	}
	var all []broker.Holding
	for _, name := range n.queues {
		if wanted(name, core.Queue) {
			all = append(all, broker.Holding{Entity: name, Kind: core.Queue})
		}
	}
	return all, nil
}

func (n *namespaceSource) Stages() []broker.StageCounts {
	return []broker.StageCounts{{Kind: "ingress", Router: "geo", Judged: 1}}
}

func (n *namespaceSource) FailingSchedules() int { return 0 }

// scraped reads what a handler answers.
func scraped(t *testing.T, h http.Handler) scrape {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(w.Body.String()))
	if err != nil || w.Code != 200 {
		t.Fatalf("scrape: %d, %v\n%s", w.Code, err, w.Body)
	}
	return families
}

func TestANamespaceSeesItsOwnSeriesOnly(t *testing.T) {
	t.Parallel()
	m := metrics.New(metrics.Options{})
	m.HTTP()("send", 201)
	_, _ = m.Namespace("own", &namespaceSource{queues: []string{"q"}}, nil)
	a, _ := m.Namespace("a", &namespaceSource{queues: []string{"q", "secret-a"}}, branch)
	b, _ := m.Namespace("b", &namespaceSource{queues: []string{"q", "secret-b"}}, branch)
	for name, h := range map[string]http.Handler{"a": a, "b": b} {
		got := scraped(t, h)
		if n := got.sum("crosstown_accepted_messages_total", "namespace", name, "entity", "secret-"+name); n != 10 {
			t.Errorf("%s: got %v messages of its own", name, n)
		}
		for family, f := range got {
			for _, metric := range f.GetMetric() {
				if !has(metric, []string{"namespace", name}) {
					t.Errorf("%s is shown %s %v", name, family, metric)
				}
			}
		}
	}
	all := scraped(t, m.Handler())
	if n := all.sum("crosstown_remote_sent_messages_total", "result", "taken"); n != 14 {
		t.Errorf("an operator sees %v messages that remotes took, want those of both namespaces, 14", n)
	}
	if got := all.values("namespace"); len(got) != 3 || all.sum("crosstown_accepted_messages_total") != 50 || all["crosstown_http_requests_total"] == nil {
		t.Errorf("an operator is shown %v", got)
	}
}

// Who has no operator's view must not see in its own how much others hold.
func TestWhatOthersHaveTakesNoSeriesOfANamespace(t *testing.T) {
	t.Parallel()
	m := metrics.New(metrics.Options{MaxEntities: 2})
	_, _ = m.Namespace("own", &namespaceSource{}, nil)
	_, _ = m.Namespace("greedy", &namespaceSource{queues: []string{"q1", "q2", "q3"}}, nil)
	scraped(t, m.Handler()) // nothing is left then
	small, _ := m.Namespace("small", &namespaceSource{queues: []string{"q"}}, nil)
	if got := scraped(t, small).values("entity"); len(got) != 1 || !got["q"] {
		t.Errorf("its own see %v, want q", got)
	}
	if got := scraped(t, m.Handler()).values("entity"); len(got) != 3 || got["q"] || !got["_other"] {
		t.Errorf("operators see %v, want two of others and the rest", got)
	}
}

func TestNamespacesAndTheirEntitiesAreBounded(t *testing.T) {
	t.Parallel()
	m := metrics.New(metrics.Options{MaxEntities: 5, MaxNamespaces: 3})
	var queues []string
	for i := range 4 {
		queues = append(queues, fmt.Sprint("q", i))
	}
	hidden := &namespaceSource{queues: queues}
	var hide func()
	for i := range 10 {
		name, source := fmt.Sprint("ns", i), &namespaceSource{queues: queues}
		if i == 9 {
			source = hidden
		}
		_, h := m.Namespace(name, source, nil)
		if i == 1 {
			hide = h
		}
	}
	check := func(served float64, shown ...string) {
		t.Helper()
		got := scraped(t, m.Handler())
		if n := got.sum("crosstown_accepted_messages_total"); n != served*40 {
			t.Errorf("messages of all: got %v, want %v", n, served*40)
		}
		if n := got.sum("crosstown_namespaces"); n != served {
			t.Errorf("namespaces: got %v, want %v", n, served)
		}
		names := got.values("namespace")
		for _, name := range append(shown, "ns0", "_other") {
			if !names[name] {
				t.Errorf("%s is not shown", name)
			}
		}
		if len(names) != len(shown)+2 {
			t.Errorf("got %v", names)
		}
		own, others := 0, 0
		for _, metric := range got["crosstown_accepted_messages_total"].GetMetric() {
			switch {
			case has(metric, []string{"entity", "_other"}):
			case has(metric, []string{"namespace", "ns0"}):
				own++
			default:
				others++
			}
		}
		if own != 4 || others != 5 {
			t.Errorf("series of entities: %d in the gateway's own namespace, %d in others; want 4 and 5", own, others)
		}
	}
	check(10, "ns1", "ns2", "ns3")
	hide()
	check(9, "ns2", "ns3", "ns4")
	if hidden.counted != 0 {
		t.Error("a namespace that is not shown was counted")
	}
}

func TestRecreatedNamespaceHasItsNameAtOnce(t *testing.T) {
	t.Parallel()
	m := metrics.New(metrics.Options{})
	_, _ = m.Namespace("own", &namespaceSource{}, nil)
	_, hide := m.Namespace("a", &namespaceSource{queues: []string{"old"}}, nil)
	again, _ := m.Namespace("a", &namespaceSource{queues: []string{"new"}}, nil) // while the old one ends
	if got := scraped(t, again).values("entity"); len(got) != 1 || !got["new"] {
		t.Errorf("its own see %v", got)
	}
	if n := scraped(t, m.Handler()).sum("crosstown_accepted_messages_total"); n != 20 {
		t.Errorf("operators see %v messages, want 20", n)
	}
	hide()
	if got := scraped(t, m.Handler()).values("entity"); len(got) != 1 || !got["new"] {
		t.Errorf("operators see %v", got)
	}
}

// However many namespaces there are, a scrape takes no longer than one count does.
func TestAScrapeEndsWhereTheStoreDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(metrics.Options{Logger: slog.New(slog.DiscardHandler)})
		for i := range 50 {
			_, _ = m.Namespace(fmt.Sprint("ns", i), &namespaceSource{err: errors.New("no connection")}, nil)
		}
		began := time.Now()
		got := scraped(t, m.Handler())
		if took := time.Since(began); took > 5*time.Second || got.sum("crosstown_store_up") != 0 || len(got.values("namespace")) != 50 {
			t.Errorf("got %d namespaces after %v", len(got.values("namespace")), took)
		}
	})
}
