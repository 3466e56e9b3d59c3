package broker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/value"
)

func TestLocksOfSeveralPartitionsAreSettledTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		b.send(t, "q", numbered(8)...)
		ds := b.receive(t, "q", core.PeekLock, 8).take()
		ss := []core.Settlement{{Token: core.NewLockToken(77, 1, 1)}}
		for _, d := range ds {
			ss = append(ss, core.Settlement{Token: d.LockToken})
		}
		ss = append(ss, core.Settlement{Token: ds[0].LockToken}, core.Settlement{Token: core.NewLockToken(2, 1, 1)})
		for i, err := range b.Settle(t.Context(), root, core.At("q"), ss) {
			bad := i == 0 || i > 8
			if bad != errors.Is(err, core.LockLost) || bad != strings.HasPrefix(core.TextOf(err), "The lock supplied is invalid.") {
				t.Errorf("settlement %d: got %v", i, err)
			}
		}
	})
}

func TestSettlementNeedsListenButNoReceiver(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", text("m"))
		d := b.receive(t, "q", core.PeekLock, 1).take()[0]
		ss := []core.Settlement{{Token: d.LockToken}}
		if err := b.Settle(t.Context(), core.Identity{{Rights: core.Send}}, core.At("q"), ss)[0]; !errors.Is(err, core.Unauthorized) {
			t.Errorf("with Send: got %v, want %v", err, core.Unauthorized)
		}
		if err := b.Settle(t.Context(), root, core.At("missing"), ss)[0]; !errors.Is(err, core.NotFound) {
			t.Errorf("missing entity: got %v, want %v", err, core.NotFound)
		}
		// A grant for the management node alone covers calls that name it.
		management := core.Identity{{Rights: core.Listen, Scope: "q/$management"}}
		if err := b.another(t).Settle(t.Context(), management, core.At("q/$management"), ss)[0]; err != nil {
			t.Errorf("at another gateway: got %v", err)
		}
	})
}

func TestSettlementsSetFewPropertiesWhileMemoryIsShort(t *testing.T) {
	t.Parallel()
	gauge := new(fair.Gauge)
	inBubbleWith(t, Options{Namespace: "ns", Memory: fair.New(0, nil, gauge)}, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", numbered(6)...)
		ds := b.receive(t, "q", core.PeekLock, 6).take()
		set := func(bytes int) core.Properties {
			p, err := core.NewProperties(core.Property{Key: "x", Value: strings.Repeat("x", bytes)})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		settle := func(i int, o core.Outcome, p core.Properties, want core.Code) {
			t.Helper()
			errs := b.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: ds[i].LockToken}, {Token: ds[i+1].LockToken, Outcome: o, Properties: p}})
			if core.CodeOf(errs[1]) != want {
				t.Errorf("%v with %d bytes of properties: got %v, want %q", o, len(p.Encoded()), errs[1], want)
			}
			if want != "" && errs[0] != nil {
				t.Errorf("complete beside it: got %v", errs[0])
			}
		}
		gauge.Set(fair.Tight)
		for i, o := range []core.Outcome{core.Abandon, core.Defer, core.DeadLetterOutcome} {
			settle(2*i, o, set(entity.FreeBytes), core.Busy)
			settle(2*i, o, set(100), "")
		}
	})
}

func TestDeadLetterReasonsAreKeptShortAndOfTheirType(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", numbered(3)...)
		ds := b.receive(t, "q", core.PeekLock, 3).take()
		properties := func(reason, description any) core.Properties {
			p, err := core.NewProperties(core.Property{Key: core.PropertyDeadLetterReason, Value: reason},
				core.Property{Key: core.PropertyDeadLetterDescription, Value: description}, core.Property{Key: "other", Value: int32(5)})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		long := strings.Repeat("ü", 5000)
		errs := b.Settle(t.Context(), root, core.At("q"), []core.Settlement{
			{Token: ds[0].LockToken, Outcome: core.DeadLetterOutcome, Properties: properties(long, "short")},
			{Token: ds[1].LockToken, Outcome: core.DeadLetterOutcome, Properties: properties(value.Timestamp(7), int64(5))},
			{Token: ds[2].LockToken, Outcome: core.DeadLetterOutcome},
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		dead := b.receive(t, "q/$DeadLetterQueue", core.PeekLock, 3).take()
		if len(dead) != 3 {
			t.Fatalf("%d dead letters, want 3", len(dead))
		}
		date, _ := dead[1].Properties.Get(core.PropertyDeadLetterReason)
		number, _ := dead[1].Properties.Get(core.PropertyDeadLetterDescription)
		if date != value.Timestamp(7) || number != int64(5) {
			t.Errorf("got %T %v, %T %v, want a timestamp and a long", date, date, number, number)
		}
		reason, _ := dead[0].Properties.Get(core.PropertyDeadLetterReason)
		description, _ := dead[0].Properties.Get(core.PropertyDeadLetterDescription)
		other, _ := dead[0].Properties.Get("other")
		if reason != long[:2*core.MaxDeadLetterTextChars] || description != "short" || other != int32(5) {
			t.Errorf("got a reason of %d bytes, description %v, other %v", len(reason.(string)), description, other)
		}
		ss := []core.Settlement{{Token: dead[0].LockToken, Outcome: core.DeadLetterOutcome}}
		if err := b.Settle(t.Context(), root, core.At("q/$DeadLetterQueue"), ss)[0]; !errors.Is(err, core.NotAllowed) {
			t.Errorf("dead-lettered again: got %v, want %v", err, core.NotAllowed)
		}
	})
}

func TestLocksAreRenewedByToken(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		b.send(t, "q", numbered(4)...)
		ds := b.receive(t, "q", core.PeekLock, 4).take()
		tokens := []core.LockToken{core.NewLockToken(9, 1, 1)}
		for _, d := range ds {
			tokens = append(tokens, d.LockToken)
		}
		time.Sleep(50 * time.Second)
		for i, r := range b.Renew(t.Context(), root, core.At("q"), tokens) {
			if i == 0 {
				if !errors.Is(r.Err, core.LockLost) {
					t.Errorf("no such partition: got %v, want %v", r.Err, core.LockLost)
				}
				continue
			}
			if r.Err != nil || r.Until.Sub(b.store.Now()) != time.Minute {
				t.Errorf("token %d: got %v, %v", i, r.Until, r.Err)
			}
		}
		time.Sleep(time.Minute)
		for i, r := range b.Renew(t.Context(), root, core.At("q"), tokens) {
			if !errors.Is(r.Err, core.LockLost) {
				t.Errorf("expired token %d: got %v, want %v", i, r.Err, core.LockLost)
			}
		}
		if r := b.Renew(t.Context(), nil, core.At("q"), tokens)[0]; !errors.Is(r.Err, core.Unauthorized) {
			t.Errorf("nobody: got %v, want %v", r.Err, core.Unauthorized)
		}
	})
}
