package metrics_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/gateway/internal/metrics"
)

// asked counts how often the broker is.
type asked struct {
	*broker.Broker
	n atomic.Int64
}

func (a *asked) Holding(ctx context.Context, name string) (broker.Holding, error) {
	a.n.Add(1)
	time.Sleep(10 * time.Millisecond)
	return a.Broker.Holding(ctx, name)
}

func TestCountersAreSharedForASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, metrics.Options{})
		r.create(t, "Orders")
		r.send(t, "orders", 3)
		in, err := r.front.OpenReceiver(t.Context(), root, core.At("orders"), core.ReceiverOptions{Deliver: func([]core.Delivery) {}})
		if err != nil {
			t.Fatal(err)
		}
		in.AddCredit(1, core.AnyMessage)
		synctest.Wait()

		source := &asked{Broker: r.Broker}
		c := metrics.NewCounters(source)
		want := metrics.Counter{Entity: "Orders", Active: 3, Ready: 2, Locked: 1}
		var readers sync.WaitGroup
		for range 20 {
			readers.Go(func() {
				if got, err := c.Read(t.Context(), core.Entity{Name: "ORDERS"}); got != want || err != nil {
					t.Errorf("got %+v, %v, want %+v", got, err, want)
				}
			})
		}
		readers.Wait()
		r.send(t, "orders", 1)
		if got, _ := c.Read(t.Context(), core.Entity{Name: "orders"}); got != want || source.n.Load() != 1 {
			t.Errorf("got %+v; the broker was asked %d times, want once", got, source.n.Load())
		}
		time.Sleep(time.Second)
		if got, _ := c.Read(t.Context(), core.Entity{Name: "orders"}); got.Active != 4 {
			t.Errorf("a second later: got %+v", got)
		}
	})
}

func TestCountersOfSessionsAndOfNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, metrics.Options{})
	sessions := func(s *core.Settings) { s.RequiresSession = true }
	r.create(t, "s", sessions)
	r.sendTo(t, "s", "a", "b", "a")
	ent, err := r.Resolve(t.Context(), nil, core.At("s"))
	if err != nil {
		t.Fatal(err)
	}
	c := metrics.NewCounters(r.Broker)
	if got, err := c.Read(t.Context(), ent); err != nil || got.Active != 3 || got.Sessions == nil || *got.Sessions != 2 || *got.SessionsHeld != 0 || *got.SessionsWaiting != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := c.Read(t.Context(), core.Entity{Name: "none"}); core.CodeOf(err) != core.NotFound {
		t.Errorf("none: got %v", err)
	}
}
