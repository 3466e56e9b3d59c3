package broker

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

func asked(t *testing.T, name string, v any) core.Properties {
	t.Helper()
	p, err := core.NewProperties(core.Property{Key: name, Value: v})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// abandonWith abandons deliveries with a property.
func (b *started) abandonWith(t *testing.T, address string, p core.Properties, ds ...core.Delivery) error {
	t.Helper()
	var all []core.Settlement
	for _, d := range ds {
		all = append(all, core.Settlement{Token: d.LockToken, Outcome: core.Abandon, Properties: p})
	}
	return errors.Join(b.Settle(t.Context(), root, core.At(address), all)...)
}

func TestAbandonedMessagesWaitAsTheirPropertySays(t *testing.T) {
	now := func(b *started) time.Time { return b.Broker.store.Now() }
	for name, c := range map[string]struct {
		property string
		v        func(b *started) any
		want     time.Duration
	}{
		"seconds":           {core.PropertyRetryAfter, func(*started) any { return int32(90) }, 90 * time.Second},
		"long seconds":      {core.PropertyRetryAfter, func(*started) any { return int64(90) }, 90 * time.Second},
		"a byte":            {core.PropertyRetryAfter, func(*started) any { return uint8(9) }, 9 * time.Second},
		"a fraction":        {core.PropertyRetryAfter, func(*started) any { return 1.25 }, 1250 * time.Millisecond},
		"text":              {core.PropertyRetryAfter, func(*started) any { return "1.5" }, 1500 * time.Millisecond},
		"ISO 8601":          {core.PropertyRetryAfter, func(*started) any { return "PT1M30S" }, 90 * time.Second},
		"a TimeSpan":        {core.PropertyRetryAfter, timeSpan, 2500 * time.Millisecond},
		"a day":             {core.PropertyRetryAfter, func(*started) any { return "P1D" }, core.MaxBackoff},
		"zero":              {core.PropertyRetryAfter, func(*started) any { return int32(0) }, 0},
		"a timestamp":       {core.PropertyRetryAt, func(b *started) any { return value.TimestampOf(now(b).Add(time.Minute)) }, time.Minute},
		"the text of one":   {core.PropertyRetryAt, func(b *started) any { return now(b).Add(time.Minute).Format(time.RFC3339Nano) }, time.Minute},
		"a time that is up": {core.PropertyRetryAt, func(b *started) any { return value.TimestampOf(now(b).Add(-time.Minute)) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *started) {
				b.create(t, "q")
				b.send(t, "q", text("first"), text("second"))
				in := b.receive(t, "q", core.PeekLock, 1)
				d := in.take()[0]
				if err := b.abandonWith(t, "q", asked(t, c.property, c.v(b)).Merge(asked(t, "x", "kept")), d); err != nil {
					t.Fatal(err)
				}
				if c.want > 0 {
					in.AddCredit(2, core.AnyMessage)
					other := in.take()
					if bodies(other) != "second" {
						t.Fatalf("meanwhile: got %q, want second", bodies(other))
					}
					settle(t, b, "q", core.Complete, other...)
					time.Sleep(c.want - time.Millisecond)
					if got := bodies(in.take()); got != "" {
						t.Errorf("a millisecond early: got %q", got)
					}
					time.Sleep(time.Millisecond)
				} else {
					in.AddCredit(1, core.AnyMessage)
				}
				again := in.take()
				if bodies(again) != "first" {
					t.Fatalf("then: got %q, want first", bodies(again))
				}
				kept, _ := again[0].Properties.Get("x")
				if again[0].DeliveryCount != 1 || again[0].SequenceNumber != d.SequenceNumber || kept != "kept" || again[0].Properties.Len() != 1 {
					t.Errorf("got count %d, number %d, properties %v", again[0].DeliveryCount, again[0].SequenceNumber, again[0].Properties)
				}
			})
		})
	}
}

func timeSpan(*started) any {
	return value.Described{Descriptor: value.DescriptorTimeSpan, Value: int64(25_000_000)}
}

func TestDelaysThatMakeNoSenseAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", text("m"))
		d := b.receive(t, "q", core.PeekLock, 1).take()[0]
		both := asked(t, core.PropertyRetryAfter, int32(1)).Merge(asked(t, core.PropertyRetryAt, value.TimestampOf(time.Now())))
		for name, c := range map[string]struct {
			properties core.Properties
			want       core.Code
		}{
			"negative":         {asked(t, core.PropertyRetryAfter, int32(-1)), core.InvalidArgument},
			"negative ISO":     {asked(t, core.PropertyRetryAfter, "-PT1M"), core.InvalidArgument},
			"not a number":     {asked(t, core.PropertyRetryAfter, math.NaN()), core.InvalidArgument},
			"words":            {asked(t, core.PropertyRetryAfter, "soon"), core.InvalidArgument},
			"true":             {asked(t, core.PropertyRetryAfter, true), core.InvalidArgument},
			"null":             {asked(t, core.PropertyRetryAfter, nil), core.InvalidArgument},
			"another type":     {asked(t, core.PropertyRetryAfter, value.Described{Descriptor: value.DescriptorURI, Value: "x"}), core.InvalidArgument},
			"infinite":         {asked(t, core.PropertyRetryAfter, math.Inf(1)), core.OutOfRange},
			"forever":          {asked(t, core.PropertyRetryAfter, "P9999999D"), core.OutOfRange},
			"over a day":       {asked(t, core.PropertyRetryAfter, int32(24*60*60+1)), core.OutOfRange},
			"no time":          {asked(t, core.PropertyRetryAt, "tomorrow"), core.InvalidArgument},
			"a number":         {asked(t, core.PropertyRetryAt, int64(5)), core.InvalidArgument},
			"in over a day":    {asked(t, core.PropertyRetryAt, value.TimestampOf(b.Broker.store.Now().Add(25*time.Hour))), core.OutOfRange},
			"after and at too": {both, core.InvalidArgument},
		} {
			err := b.abandonWith(t, "q", c.properties, d)
			if !errors.Is(err, c.want) {
				t.Errorf("%s: got %v, want %v", name, err, c.want)
			}
			if tx := b.Begin(); !errors.Is(tx.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: d.LockToken, Outcome: core.Abandon, Properties: c.properties}}), c.want) {
				t.Errorf("%s, in a transaction: want %v", name, c.want)
			}
		}
		settle(t, b, "q", core.Complete, d) // it is still locked
	})
}

func TestPropertiesOfOtherOutcomesAreJustProperties(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", text("m"))
		d := b.receive(t, "q", core.PeekLock, 1).take()[0]
		ss := []core.Settlement{{Token: d.LockToken, Outcome: core.DeadLetterOutcome, Properties: asked(t, core.PropertyRetryAfter, "soon")}}
		if err := b.Settle(t.Context(), root, core.At("q"), ss)[0]; err != nil {
			t.Fatal(err)
		}
		dead := b.receive(t, "q/$DeadLetterQueue", core.PeekLock, 1).take()
		if v, _ := dead[0].Properties.Get(core.PropertyRetryAfter); v != "soon" {
			t.Errorf("got %v, want soon", v)
		}
		// Dead letters can be delayed, too.
		if err := b.abandonWith(t, "q/$DeadLetterQueue", asked(t, core.PropertyRetryAfter, int32(5)), dead...); err != nil {
			t.Fatal(err)
		}
		in := b.receive(t, "q/$DeadLetterQueue", core.PeekLock, 1)
		if got := in.take(); len(got) != 0 {
			t.Errorf("at once: got %d dead letters", len(got))
		}
		time.Sleep(5 * time.Second)
		if got := in.take(); len(got) != 1 {
			t.Errorf("then: got %d dead letters, want 1", len(got))
		}
	})
}

// sessionFor accepts a session of q, and takes one message.
func (b *started) sessionFor(t *testing.T, o core.SessionOptions) (core.Session, *inbox) {
	t.Helper()
	in := &inbox{}
	o.Deliver = in.deliver
	s, err := b.AcceptSession(t.Context(), root, core.At("q"), o)
	if err != nil {
		t.Fatal(err)
	}
	s.AddCredit(1, core.AnyMessage)
	return s, in
}

func TestDelaysPauseSessions(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, Options{Namespace: "ns", Selected: Selected{Retries: []For[Retry]{{Entity: "*", Set: Retry{Backoff: core.Backoff{First: time.Minute}}}}}}, func(t *testing.T, b *started) {
		b.create(t, "q", func(s *core.Settings) { s.RequiresSession, s.MaxDeliveryCount = true, 3 })
		for _, body := range []string{"s1", "s2", "t1"} {
			m := text(body)
			m.SessionID = body[:1]
			b.send(t, "q", m)
		}
		first, in := b.sessionFor(t, core.SessionOptions{Next: true})
		settle(t, b, "q", core.Abandon, in.take()...) // the policy's delay
		first.AddCredit(1, core.AnyMessage)
		time.Sleep(time.Minute - time.Millisecond)
		if got := bodies(in.take()); got != "" {
			t.Errorf("a millisecond early, its holder got %q", got)
		}
		time.Sleep(time.Millisecond)
		d := in.take()
		if bodies(d) != "s1" || d[0].DeliveryCount != 1 {
			t.Fatalf("at the end of the pause: got %q", bodies(d))
		}
		if err := b.abandonWith(t, "q", asked(t, core.PropertyRetryAfter, int32(90)), d...); err != nil {
			t.Fatal(err)
		}
		first.Close()

		other, in := b.sessionFor(t, core.SessionOptions{Next: true})
		d = in.take()
		if got := bodies(d); got != "t1" {
			t.Fatalf("the next session has %q", got)
		}
		settle(t, b, "q", core.Complete, d...)
		other.Close()
		began := time.Now()
		next, in := b.sessionFor(t, core.SessionOptions{Next: true})
		if took := time.Since(began); next.ID() != "s" || took != 90*time.Second {
			t.Errorf("then session %q could be accepted after %v, want s after 1m30s", next.ID(), took)
		}
		d = in.take()
		settle(t, b, "q", core.Abandon, d...) // for the last time
		next.AddCredit(1, core.AnyMessage)
		d = in.take()
		if got := bodies(d); got != "s2" {
			t.Errorf("after the last delivery: got %q, want s2 at once", got)
		}

		release := core.Settlement{Token: d[0].LockToken, Outcome: core.Release, Properties: asked(t, core.PropertyRetryAfter, int32(5))}
		wrong := release
		wrong.Properties = wrong.Properties.Merge(asked(t, "x", "1"))
		if err := b.Settle(t.Context(), root, core.At("q"), []core.Settlement{wrong})[0]; !errors.Is(err, core.InvalidArgument) {
			t.Errorf("a release with properties: got %v", err)
		}
		if err := b.Settle(t.Context(), root, core.At("q"), []core.Settlement{release})[0]; err != nil {
			t.Fatal(err)
		}
		next.AddCredit(1, core.AnyMessage)
		time.Sleep(5*time.Second - time.Millisecond)
		if got := bodies(in.take()); got != "" {
			t.Errorf("released: got %q a millisecond early", got)
		}
		time.Sleep(time.Millisecond)
		if d := in.take(); bodies(d) != "s2" || d[0].DeliveryCount != 0 {
			t.Errorf("released: got %q", bodies(d))
		}
		next.Close()
	})
}

func TestPoliciesPutAbandonedMessagesOff(t *testing.T) {
	t.Parallel()
	retries := []For[Retry]{
		{Entity: "ORDERS/*", Set: Retry{Backoff: core.Backoff{First: time.Second, Factor: 3, Max: 5 * time.Second}}},
		{Entity: "*", Set: Retry{Backoff: core.Backoff{First: time.Hour}}},
	}
	inBubbleWith(t, Options{Namespace: "ns", Selected: Selected{Retries: retries}}, func(t *testing.T, b *started) {
		b.create(t, "orders/eu", func(s *core.Settings) { s.MaxDeliveryCount = 6 })
		b.send(t, "orders/eu", text("m"))
		in := b.receive(t, "orders/eu", core.PeekLock, 1)
		d := in.take()[0]
		began := time.Now()
		next := func(want time.Duration) {
			t.Helper()
			if got := time.Since(began); len(in.take()) != 0 {
				t.Fatalf("after %v: it is there", got)
			}
			time.Sleep(want - time.Millisecond)
			if early := in.take(); len(early) != 0 {
				t.Fatalf("a millisecond before %v: it is there", want)
			}
			time.Sleep(time.Millisecond)
			ds := in.take()
			if len(ds) != 1 {
				t.Fatalf("after %v: got %d messages", want, len(ds))
			}
			d = ds[0]
		}
		for _, want := range []time.Duration{time.Second, 3 * time.Second, 5 * time.Second} {
			settle(t, b, "orders/eu", core.Abandon, d)
			in.AddCredit(1, core.AnyMessage)
			next(want)
		}
		// Whoever abandons it knows better, and who gives it back has not failed.
		if err := b.abandonWith(t, "orders/eu", asked(t, core.PropertyRetryAfter, int32(0)), d); err != nil {
			t.Fatal(err)
		}
		in.AddCredit(1, core.AnyMessage)
		d = in.take()[0]
		settle(t, b, "orders/eu", core.Release, d)
		in.AddCredit(1, core.AnyMessage)
		d = in.take()[0]
		time.Sleep(time.Minute) // the lock ends, and no wait follows
		in.AddCredit(1, core.AnyMessage)
		ds := in.take()
		if len(ds) != 1 || ds[0].DeliveryCount != 5 {
			t.Fatalf("after the lock's end: got %v, want one with a count of 5", ds)
		}
		settle(t, b, "orders/eu", core.Abandon, ds[0])
		if dead := b.receive(t, "orders/eu/$DeadLetterQueue", core.PeekLock, 1).take(); len(dead) != 1 {
			t.Errorf("after the last delivery: got %d dead letters, want one at once", len(dead))
		}
	})
}

func TestJitterShortensWaits(t *testing.T) {
	t.Parallel()
	r := Retry{Backoff: core.Backoff{First: 10 * time.Second, Factor: 2, Max: 30 * time.Second}, Jitter: 0.5}
	seen := map[time.Duration]bool{}
	for range 200 {
		b := r.backoff()
		for failures, most := range []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second} {
			if got := b.After(failures); got < most/2 || got > most {
				t.Fatalf("after %d failures: %v, want %v to %v", failures, got, most/2, most)
			}
		}
		seen[b.First] = true
	}
	if len(seen) < 100 {
		t.Errorf("200 waits are %d different ones", len(seen))
	}
}

func TestTransactionPutsMessagesOff(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", text("by delay"), text("by time"))
		in := b.receive(t, "q", core.PeekLock, 2)
		ds := in.take()
		tx := b.Begin()
		for i, p := range []core.Properties{
			asked(t, core.PropertyRetryAfter, int32(30)),
			asked(t, core.PropertyRetryAt, value.TimestampOf(b.Broker.store.Now().Add(30*time.Second))),
		} {
			if err := tx.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: ds[i].LockToken, Outcome: core.Abandon, Properties: p}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		commit(t, tx)
		in.AddCredit(2, core.AnyMessage)
		time.Sleep(20 * time.Second)
		if got := bodies(in.take()); got != "by time" {
			t.Errorf("at the time: got %q", got)
		}
		time.Sleep(10 * time.Second)
		if got := bodies(in.take()); got != "by delay" {
			t.Errorf("30 s after the commit: got %q", got)
		}
	})
}

// Whatever a client asks for is refused, or a wait that the store can keep.
func FuzzAskedWaits(f *testing.F) {
	for _, text := range []string{"1.5", "PT1M30S", "P9999999D", "-1", "NaN", "+Inf", "1e400", "0x1p-3", "2026-02-01T12:00:00Z", "9999-12-31T23:59:59.999Z", ""} {
		f.Add(text, 0.5, int64(1))
	}
	f.Add("", math.MaxFloat64, int64(math.MaxInt64))
	f.Add("", math.Inf(-1), int64(math.MinInt64))
	now := time.Date(2026, time.February, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string, number float64, ticks int64) {
		for _, v := range []any{
			text, number, ticks, uint64(ticks), value.Timestamp(ticks),
			value.Described{Descriptor: value.DescriptorTimeSpan, Value: ticks},
			value.Described{Descriptor: value.DescriptorDateTimeOffset, Value: ticks},
		} {
			for _, name := range []string{core.PropertyRetryAfter, core.PropertyRetryAt} {
				p, err := core.NewProperties(core.Property{Key: name, Value: v})
				if err != nil {
					t.Skip() // no property can be that
				}
				wait, isAsked, err := askedDelay(p, now)
				if code := core.CodeOf(err); !isAsked || code != "" && code != core.InvalidArgument && code != core.OutOfRange {
					t.Fatalf("%s of %v: got %t, %v", name, v, isAsked, err)
				}
				if err == nil && (wait < 0 || wait > core.MaxBackoff) {
					t.Fatalf("%s of %v: a wait of %v", name, v, wait)
				}
			}
		}
	})
}

func TestRetriesCanBeReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", text("m"))
		in := b.receive(t, "q", core.PeekLock, 10)
		abandon := func(want time.Duration) {
			t.Helper()
			if err := b.abandonWith(t, "q", core.Properties{}, in.take()...); err != nil {
				t.Fatal(err)
			}
			if want > 0 {
				time.Sleep(want - time.Millisecond)
				if got := bodies(in.take()); got != "" {
					t.Errorf("a millisecond early: got %q", got)
				}
				time.Sleep(time.Millisecond)
			}
			synctest.Wait()
			in.mu.Lock()
			defer in.mu.Unlock()
			if len(in.got) != 1 {
				t.Errorf("after %v: got %d messages, want 1", want, len(in.got))
			}
		}
		abandon(0)
		b.Select(Selected{Retries: []For[Retry]{{Entity: "q", Set: Retry{Backoff: core.Backoff{First: time.Minute}}}}})
		abandon(time.Minute)
		b.Select(Selected{})
		abandon(0)
	})
}
