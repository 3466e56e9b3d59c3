package taps_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/intercept"
	memstore "github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/taps"
)

var root = core.Identity{{Policy: "root", Rights: core.AllRights}}

var anybody = fair.Who{Namespace: "ns", Policy: "anybody"}

// tapped is a broker with the queue "q" behind taps.
func tapped(t *testing.T) (*taps.Taps, core.Broker) {
	t.Helper()
	return tappedWith(t, fair.New(0, nil, nil))
}

func tappedWith(t *testing.T, memory *fair.Pool) (*taps.Taps, core.Broker) {
	t.Helper()
	b := broker.New(memstore.New(memstore.Options{}), broker.Options{Namespace: "ns"})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := b.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	if _, err := b.CreateEntity(t.Context(), root, core.Queue, "q", core.DefaultSettings(core.Queue), nil); err != nil {
		t.Fatal(err)
	}
	set := taps.New(time.Now, memory)
	return set, intercept.New(&intercept.Space{Broker: b, Chain: []intercept.Interceptor{set}})
}

func send(t *testing.T, b core.Broker, ms ...*core.Message) {
	t.Helper()
	s, err := b.OpenSender(t.Context(), root, core.At("Q"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, m := range ms {
		if err := s.Send(t.Context(), [][]*core.Message{{m}})[0].Err; err != nil {
			t.Fatal(err)
		}
	}
}

func TestSlowReaderGetsTheNumberOfMissedMessages(t *testing.T) {
	t.Parallel()
	set, b := tapped(t)
	slow, err := set.Open("q", anybody)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	other, err := set.Open("other", anybody)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for range 50 {
		send(t, b, &core.Message{Body: core.Body{Bytes: make([]byte, 200<<10)}})
	}
	ds, missed, err := slow.Next(t.Context())
	if err != nil || len(ds)+missed != 50 || missed == 0 || len(ds) < 30 {
		t.Errorf("got %d, missed %d, %v", len(ds), missed, err)
	}
	send(t, b, &core.Message{})
	if ds, missed, err := slow.Next(t.Context()); err != nil || len(ds) != 1 || missed != 0 {
		t.Errorf("afterwards: got %d, missed %d, %v", len(ds), missed, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if ds, _, err := other.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the tap of another queue: got %d, %v", len(ds), err)
	}
	set.End()
	if _, _, err := slow.Next(t.Context()); !errors.Is(err, taps.ErrEnded) {
		t.Errorf("at the end: got %v", err)
	}
	if _, err := set.Open("q", anybody); !errors.Is(err, taps.ErrEnded) {
		t.Errorf("after the end: got %v", err)
	}
}

func TestATransactionIsShownOnceItIsCommitted(t *testing.T) {
	t.Parallel()
	set, b := tapped(t)
	tap, err := set.Open("q", anybody)
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	for _, commit := range []bool{false, true} {
		x := b.Begin()
		if err := x.Send(t.Context(), root, core.At("q"), core.Address{}, []*core.Message{{To: "in a transaction"}}); err != nil {
			t.Fatal(err)
		}
		if !commit {
			x.Rollback(t.Context())
			continue
		}
		if err := x.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if ds, _, err := tap.Next(t.Context()); err != nil || len(ds) != 1 || ds[0].To != "in a transaction" {
		t.Errorf("got %+v, %v", ds, err)
	}
}

func TestTapsLeavePlacesToOthers(t *testing.T) {
	t.Parallel()
	set := taps.New(time.Now, fair.New(0, nil, nil))
	var all []*taps.Tap
	var err error
	for {
		var tap *taps.Tap
		if tap, err = set.Open("q", anybody); err != nil {
			break
		}
		all = append(all, tap)
	}
	if len(all) != 15 || core.CodeOf(err) != core.Busy {
		t.Errorf("a policy has %d taps of 20, then %v", len(all), err)
	}
	operator, err := set.Open("q", fair.Who{Namespace: "ns", Policy: "operator"})
	if err != nil {
		t.Fatalf("another policy: %v", err)
	}
	operator.Close()
	all[0].Close()
	all[0].Close()
	if _, err := set.Open("q", anybody); err != nil {
		t.Errorf("once one is closed: %v", err)
	}
}

func TestWhatTapsHoldIsMemoryOfTheGateway(t *testing.T) {
	t.Parallel()
	memory := fair.New(1<<20, nil, nil)
	set, b := tappedWith(t, memory)
	tap, err := set.Open("q", anybody)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		send(t, b, &core.Message{Body: core.Body{Bytes: make([]byte, 100<<10)}})
	}
	held := memory.Stats().Held
	ds, missed, err := tap.Next(t.Context())
	if err != nil || len(ds) != 5 || missed != 5 || held < 500<<10 || memory.Stats().Held != held {
		t.Errorf("of 10 messages of 100 KiB %d came and %d were missed, %v; %d bytes were held, and %d until they are written; want half of 1 MiB", len(ds), missed, err, held, memory.Stats().Held)
	}
	tap.Close()
	if got := memory.Stats().Held; got != 0 {
		t.Errorf("once the tap is closed, %d bytes are held", got)
	}
}
