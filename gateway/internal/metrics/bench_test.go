//go:build unix

package metrics_test

import (
	"net/http/httptest"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/intercept"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/gateway/internal/metrics"
)

// BenchmarkRoundTrip sends, receives and completes so many messages at a time,
// with metrics and without; it measures per message.
func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run("batch="+strconv.Itoa(size)+"/metrics=off", func(b *testing.B) {
			bare := broker.New(memory.New(memory.Options{}), broker.Options{Namespace: "ns"})
			roundTrip(b, bare, bare, size)
		})
		b.Run("batch="+strconv.Itoa(size)+"/metrics=on", func(b *testing.B) {
			m := metrics.New(metrics.Options{})
			inner := broker.New(m.Store(memory.New(memory.Options{})), broker.Options{Namespace: "ns"})
			roundTrip(b, inner, intercept.New(&intercept.Space{Broker: inner}, m.Protocol("bench")), size)
		})
	}
}

func roundTrip(b *testing.B, admin core.Admin, br core.Broker, size int) {
	ctx := b.Context()
	if _, err := admin.CreateEntity(ctx, root, core.Queue, "q", core.DefaultSettings(core.Queue), nil); err != nil {
		b.Fatal(err)
	}
	s, err := br.OpenSender(ctx, root, core.At("q"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var got []core.Settlement
	all := make(chan struct{}, 1)
	r, err := br.OpenReceiver(ctx, root, core.At("q"), core.ReceiverOptions{Deliver: func(ds []core.Delivery) {
		for i := range ds {
			got = append(got, core.Settlement{Token: ds[i].LockToken})
		}
		if len(got) == size {
			all <- struct{}{}
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	groups := make([][]*core.Message, size)
	for i := range groups {
		groups[i] = []*core.Message{{Body: core.Body{Bytes: make([]byte, 1024)}}}
	}
	b.ReportAllocs()
	n, began := 0, processTime(b)
	for b.Loop() {
		if n++; n%size != 0 {
			continue
		}
		for i := range groups {
			groups[i] = []*core.Message{{Body: groups[i][0].Body}}
		}
		r.AddCredit(size, core.AnyMessage)
		s.Send(ctx, groups)
		<-all
		br.Settle(ctx, root, core.Address{Entity: "q"}, got)
		got = got[:0]
	}
	b.ReportMetric(float64(processTime(b)-began)/float64(time.Microsecond)/float64(b.N), "cpu-µs/op")
}

// processTime is the processor time that this process has taken so far.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkScrape is a scrape of so many queues whose messages are counted already.
func BenchmarkScrape(b *testing.B) {
	for _, n := range []int{10, 500} {
		b.Run("entities="+strconv.Itoa(n), func(b *testing.B) {
			r := newRig(b, metrics.Options{})
			for i := range n {
				name := "q" + strconv.Itoa(i)
				r.create(b, name)
				r.send(b, name, 1)
			}
			h, request := r.metrics.Handler(), httptest.NewRequest("GET", "/metrics", nil)
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(httptest.NewRecorder(), request)
			}
		})
	}
}
