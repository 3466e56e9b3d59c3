package tracing_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/intercept"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/gateway/internal/tracing"
	"github.com/crosstown-mq/crosstown/gateway/internal/tracing/tracingtest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// exporting is a broker with one queue, orders, whose spans go to a collector.
func exporting(t *testing.T, o tracing.Options) (*tracing.Tracing, core.Broker) {
	t.Helper()
	o.Sample = 1
	traces, err := tracing.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	b := broker.New(traces.Store(memory.New(memory.Options{})), broker.Options{Namespace: "ns"})
	if _, err := b.CreateEntity(t.Context(), root, core.Queue, "orders", core.DefaultSettings(core.Queue), nil); err != nil {
		t.Fatal(err)
	}
	return traces, intercept.New(&intercept.Space{Broker: b}, traces.Protocol("test")...)
}

func sendTo(t *testing.T, b core.Broker, n int) {
	t.Helper()
	s, err := b.OpenSender(t.Context(), root, core.At("orders"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range n {
		if a := s.Send(t.Context(), [][]*core.Message{{message(t)}}); a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
	}
}

func TestCollectorGetsAllThatIsLeftWhenTracingStops(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{tracing.GRPC, tracing.HTTP} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			c := tracingtest.NewCollector(t)
			endpoint := c.GRPC
			if protocol == tracing.HTTP {
				endpoint = c.HTTP + "/v1/traces"
			}
			traces, b := exporting(t, tracing.Options{Endpoint: endpoint, Protocol: protocol, Version: "v1.2.3"})
			sendTo(t, b, 100)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := traces.Stop(ctx); err != nil {
				t.Fatal(err)
			}
			spans := c.Spans()
			if len(spans) != 200 {
				t.Fatalf("got %d spans, want 200", len(spans))
			}
			if r := spans[0].Resource; r["service.name"] != "crosstown" || r["service.version"] != "v1.2.3" {
				t.Errorf("got resource %v", r)
			}
		})
	}
}

// TestSilentCollectorKeepsNobodyWaiting has a collector that takes connections and
// never answers, and more spans than the queue holds.
func TestSilentCollectorKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{tracing.GRPC, tracing.HTTP} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ln.Close() }()
			var log lines
			traces, b := exporting(t, tracing.Options{
				Endpoint: "http://" + ln.Addr().String(), Protocol: protocol, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			sendTo(t, b, 10_000)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			if err := traces.Stop(ctx); err == nil || !strings.Contains(err.Error(), "did not accept the last") {
				t.Errorf("got %v", err)
			}
			if took := time.Since(began); took > patience/3 {
				t.Errorf("it took %v to stop", took)
			}
			if n := strings.Count(log.String(), "the collector does not accept traces"); n != 1 {
				t.Errorf("%d lines say so:\n%s", n, &log)
			}
		})
	}
}

func TestCollectorThatIsAwayIsReportedOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	away, refusals := true, 0
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if away {
			refusals++
			w.WriteHeader(http.StatusBadRequest) // which is not tried again
		}
	}))
	defer collector.Close()
	var log lines
	traces, b := exporting(t, tracing.Options{Endpoint: collector.URL, Protocol: tracing.HTTP, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	until := func(what string, holds func() bool) {
		t.Helper()
		eventually.True(t, what, func() bool {
			if !holds() {
				sendTo(t, b, 300)
				return false
			}
			return true
		})
	}
	until("several refusals", func() bool { mu.Lock(); defer mu.Unlock(); return refusals > 2 })
	mu.Lock()
	away = false
	mu.Unlock()
	until("the end of the outage", func() bool { return strings.Contains(log.String(), "accepts traces again") })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := traces.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "dropped=") {
		t.Errorf("got\n%s", &log)
	}
}

func TestDeliveriesAreForgottenBeyondABound(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, nil)
	r.queue("orders")
	const n = 20_001
	group := make([]*core.Message, n)
	for i := range group {
		group[i] = message(t)
	}
	if a := r.send("orders", group); a[0].Err != nil {
		t.Fatal(a[0].Err)
	}
	ds := r.receive("orders", n, core.PeekLock)
	if held := r.tracing.Held(); held != n-1 {
		t.Errorf("%d deliveries are remembered", held)
	}
	for _, d := range ds {
		if err := r.settle("orders", d, core.Complete); err != nil {
			t.Fatal(err)
		}
	}
	if held := r.tracing.Held(); held != 0 {
		t.Errorf("%d deliveries are remembered after they were settled", held)
	}
}
