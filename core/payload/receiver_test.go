package payload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func TestReceiversGetWhatTheyAccept(t *testing.T) {
	inBubble(t, Options{Chain: chainOf(formats())}, func(h *house) {
		h.send("q", message("app/x", "x:1"), message("app/y", "y:2"), message("app/x", "broken"), message("", "\xff"))
		for _, c := range []struct{ accept, want string }{
			{"", "app/x x:1, app/y y:2, app/x broken,  \xff"},
			{"app/y", "app/y y:1, app/y y:2, app/x broken,  \xff"},
			{"image/png", "app/x x:1, app/y y:2, app/x broken,  \xff"},
		} {
			in, r := h.receive("q", core.PeekLock, c.accept, 10)
			ds := in.take()
			if got := shown(ds); got != c.want {
				h.t.Errorf("%q: got %s, want %s", c.accept, got, c.want)
			}
			r.Close()
			release(h, "q", ds)
		}
		ds, err := h.Peek(h.t.Context(), root, core.At("q"), nil, 1, 1)
		if err != nil || shown(ds) != "app/x x:1" {
			h.t.Errorf("afterwards: got %s, %v: the queue's messages were changed", shown(ds), err)
		}
	})
}

func release(h *house, address string, ds []core.Delivery) {
	h.t.Helper()
	var settlements []core.Settlement
	for _, d := range ds {
		settlements = append(settlements, core.Settlement{Token: d.LockToken, Outcome: core.Release})
	}
	if err := errors.Join(h.Settle(h.t.Context(), root, core.At(address), settlements)...); err != nil {
		h.t.Fatal(err)
	}
}

// deadLetters receives and deletes what was dead-lettered.
func (h *house) deadLetters(name string) []core.Delivery {
	in, r := h.receive(name+"/$DeadLetterQueue", core.ReceiveAndDelete, "", 10)
	defer r.Close()
	return in.take()
}

func TestUndecodableMessagesAreDeadLettered(t *testing.T) {
	for _, mode := range []core.ReceiveMode{core.PeekLock, core.ReceiveAndDelete} {
		t.Run([]string{"peek-lock", "receive and delete"}[mode], func(t *testing.T) {
			inBubble(t, Options{Entities: map[string]Entity{"Q": {Chain: chainOf(formats())}}}, func(h *house) {
				h.send("q", message("app/x", "broken"), message("app/x", "x:1"), message("app/y", "x:2"), message("app/y", "bad"), message("app/x", "x:3"))
				in, r := h.receive("q", mode, "", 3)
				ds := in.take()
				if got, want := shown(ds), "app/x x:1, app/y x:2, app/x x:3"; got != want {
					h.t.Errorf("got %s, want %s: byte for byte, and no credit lost", got, want)
				}
				for _, d := range ds {
					if (mode == core.PeekLock) == d.LockToken.IsZero() || (mode == core.PeekLock) == d.LockedUntil.IsZero() {
						h.t.Errorf("%s: lock %s until %s", d.Body.Bytes, d.LockToken, d.LockedUntil)
					}
				}
				r.Drain(in.drained)
				synctest.Wait()
				if !slices.Equal(in.drains, []int{0}) {
					h.t.Errorf("drained: got %v, want [0]", in.drains)
				}
				dead := h.deadLetters("q")
				if got, want := shown(dead), "app/x broken, app/y bad"; got != want {
					h.t.Fatalf("dead letters: got %s, want %s", got, want)
				}
				for i, want := range []string{
					`The payload, declared as "app/x", could not be deserialized. Tried: X for app/x: no "x:"; Y: no "y:".`,
					`The payload, declared as "app/y", could not be deserialized. Tried: Y for app/y: no "y:"; X: no "x:".`,
				} {
					reason, _ := dead[i].Properties.Get(core.PropertyDeadLetterReason)
					description, _ := dead[i].Properties.Get(core.PropertyDeadLetterDescription)
					if reason != core.ReasonDeserializationFailed || description != want {
						h.t.Errorf("got %v: %v, want %s: %s", reason, description, core.ReasonDeserializationFailed, want)
					}
				}
				r.Close()
				ds, err := h.Peek(h.t.Context(), root, core.At("q"), nil, 1, 10)
				if wanted := map[core.ReceiveMode]int{core.PeekLock: 3}[mode]; err != nil || len(ds) != wanted {
					h.t.Errorf("left in the queue: got %d, %v, want %d", len(ds), err, wanted)
				}
			})
		})
	}
}

func TestEntityDelivers(t *testing.T) {
	o := Options{Chain: chainOf(formats()), Entities: map[string]Entity{"q": {Deliver: "app/y"}, "s": {Deliver: "app/y"}}}
	inBubble(t, o, func(h *house) {
		h.send("q", message("app/x", "x:1"), message("app/x", "broken"))
		ds, err := h.Peek(h.t.Context(), root, core.At("q"), nil, 1, 10)
		if got, want := shown(ds), "app/y y:1, app/x broken"; got != want || err != nil {
			h.t.Errorf("peek: got %s, %v, want %s", got, err, want)
		}
		for accept, want := range map[string]string{"": "app/y y:1, app/x broken", "*/*": "app/y y:1, app/x broken", "app/x": "app/x x:1, app/x broken"} {
			in, r := h.receive("q", core.PeekLock, accept, 10)
			ds = in.take()
			if got := shown(ds); got != want {
				h.t.Errorf("receive %q: got %s, want %s", accept, got, want)
			}
			r.Close()
			release(h, "q", ds)
		}
		in, r := h.receive("q", core.PeekLock, "", 10)
		defer r.Close()
		ds = in.take()
		if err := h.Settle(h.t.Context(), root, core.At("q"), []core.Settlement{{Token: ds[0].LockToken, Outcome: core.Defer}})[0]; err != nil {
			h.t.Fatal(err)
		}
		deferred, err := h.ReceiveDeferred(h.t.Context(), root, core.At("q"), []int64{ds[0].SequenceNumber}, core.PeekLock)
		if got, want := shown(deferred), "app/y y:1"; got != want || err != nil {
			h.t.Errorf("deferred: got %s, %v, want %s", got, err, want)
		}
		other, r2 := h.receive("q", core.PeekLock, "app/x", 10)
		defer r2.Close()
		release(h, "q", deferred)
		if got := shown(other.take()); got != "" {
			h.t.Errorf("a deferred message came: %s", got)
		}
	})
}

func TestSessionsAreTranscodedAndChecked(t *testing.T) {
	x, y := formats()
	inBubble(t, Options{Entities: map[string]Entity{"s": {Chain: chainOf(x, y)}}}, func(h *house) {
		inSession := func(m *core.Message) *core.Message { m.SessionID = "1"; return m }
		h.send("s", inSession(message("app/x", "x:1")), inSession(message("app/x", "broken")), inSession(message("app/x", "x:2")))
		in := new(inbox)
		s, err := h.AcceptSession(h.t.Context(), root, core.At("s"), core.SessionOptions{
			ReceiverOptions: core.ReceiverOptions{Accept: "app/y", Deliver: in.deliver}, ID: "1",
		})
		if err != nil {
			h.t.Fatal(err)
		}
		s.AddCredit(2, core.AnyMessage)
		ds := in.take()
		if got, want := shown(ds), "app/y y:1, app/y y:2"; got != want {
			h.t.Errorf("got %s, want %s", got, want)
		}
		if got, want := shown(h.deadLetters("s")), "app/x broken"; got != want {
			h.t.Errorf("dead letters: got %s, want %s", got, want)
		}
		if peeked, err := s.Peek(h.t.Context(), 1, 1); err != nil || shown(peeked) != "app/y y:1" {
			h.t.Errorf("peek: got %s, %v", shown(peeked), err)
		}
		if err := h.Settle(h.t.Context(), root, core.At("s"), []core.Settlement{{Token: ds[0].LockToken, Outcome: core.Defer}})[0]; err != nil {
			h.t.Fatal(err)
		}
		deferred, err := s.ReceiveDeferred(h.t.Context(), []int64{ds[0].SequenceNumber}, core.PeekLock)
		if err != nil || shown(deferred) != "app/y y:1" {
			h.t.Errorf("deferred: got %s, %v", shown(deferred), err)
		}
		s.Drain(in.drained)
		synctest.Wait()
		if !slices.Equal(in.drains, []int{0}) {
			h.t.Errorf("drained: got %v, want [0]", in.drains)
		}
		s.Close()
		plain, err := h.AcceptSession(h.t.Context(), root, core.At("q"), core.SessionOptions{ID: "1"})
		if err == nil {
			plain.Close()
			h.t.Error("a queue without sessions gave one")
		}
	})
}

// What the bridge gets takes its credit, not what it was made of.
func TestTranscodedMessagesTakeCreditInBytes(t *testing.T) {
	x, y := formats()
	x.mark = strings.Repeat("x", 1000)
	inBubble(t, Options{Entities: map[string]Entity{"q": {Chain: chainOf(x, y)}}}, func(h *house) {
		for range 20 {
			h.send("q", message("app/x", x.mark+"1"), message("app/x", "broken"))
		}
		for _, accept := range []string{"app/y", "app/x"} {
			in, r := h.receive("q", core.PeekLock, accept, 0)
			defer r.Close()
			r.AddCredit(40, -core.AnyMessage)
			room := int64(0)
			for got := 0; got < 10; {
				r.AddCredit(0, 1-room)
				room = 1
				ds := in.take()
				if got += len(ds); len(ds) != 1 {
					h.t.Fatalf("%s: got %d messages with a credit of one byte, after %d", accept, len(ds), got)
				}
				room -= int64(core.SizeOf(ds))
			}
			r.AddCredit(-30, 0)
		}
	})
}

func TestDrainReportsTheCreditOfDeadLetters(t *testing.T) {
	x, y := formats()
	inBubble(t, Options{Entities: map[string]Entity{"q": {Chain: chainOf(x, y)}}}, func(h *house) {
		x.fails = []error{core.Busy} // so that the message is at work while the receiver drains
		h.send("q", message("app/x", "broken"))
		in, r := h.receive("q", core.PeekLock, "", 5)
		synctest.Wait()
		r.Drain(in.drained)
		time.Sleep(time.Second)
		synctest.Wait()
		if !slices.Equal(in.drains, []int{5}) || len(in.take()) != 0 {
			h.t.Errorf("drained: got %v, want [5]", in.drains)
		}
		r.Close()
		if got, want := shown(h.deadLetters("q")), "app/x broken"; got != want {
			h.t.Errorf("dead letters: got %s, want %s", got, want)
		}
	})
}

func TestMessageWaitsForItsBusySerializer(t *testing.T) {
	x, y := formats()
	inBubble(t, Options{Entities: map[string]Entity{"q": {Chain: chainOf(x, y)}}}, func(h *house) {
		x.fails = []error{core.Busy, core.Timeout, core.Busy}
		h.send("q", message("app/x", "x:1"))
		in, r := h.receive("q", core.PeekLock, "", 1)
		defer r.Close()
		time.Sleep(5 * time.Second)
		if ds := in.take(); shown(ds) != "app/x x:1" || ds[0].DeliveryCount != 0 {
			h.t.Errorf("got %s, want app/x x:1 in its first delivery", shown(ds))
		}
	})
}

func TestMessageIsReleasedWhileItsSerializerStaysBusy(t *testing.T) {
	x, y := formats()
	inBubble(t, Options{Entities: map[string]Entity{"q": {Chain: chainOf(x, y)}}}, func(h *house) {
		for range 200 {
			x.fails = append(x.fails, core.Busy)
		}
		h.send("q", message("app/x", "x:1"))
		in, r := h.receive("q", core.PeekLock, "", 1)
		defer r.Close()
		time.Sleep(10 * time.Minute)
		if ds := in.take(); shown(ds) != "app/x x:1" || ds[0].DeliveryCount != 0 {
			h.t.Errorf("got %s, want app/x x:1 in its first delivery", shown(ds))
		}
	})
}

func TestCloseReleasesMessagesInFlight(t *testing.T) {
	for _, mode := range []core.ReceiveMode{core.PeekLock, core.ReceiveAndDelete} {
		t.Run([]string{"peek-lock", "receive and delete"}[mode], func(t *testing.T) {
			x, y := formats()
			inBubble(t, Options{Entities: map[string]Entity{"q": {Chain: chainOf(x, y)}}}, func(h *house) {
				x.fails = []error{core.Busy}
				h.send("q", message("app/x", "x:1"), message("app/x", "x:2"))
				in, r := h.receive("q", mode, "", 2)
				synctest.Wait()
				r.Close()
				if got := in.take(); len(got) > 0 {
					h.t.Errorf("got %s after Close", shown(got))
				}
				again, r := h.receive("q", core.PeekLock, "", 2)
				defer r.Close()
				if ds := again.take(); len(ds) != 2 || ds[0].DeliveryCount != 0 {
					h.t.Errorf("got %s, want both messages in their first delivery", shown(ds))
				}
			})
		})
	}
}

func TestReceivedAndDeletedMessagesAreTranscoded(t *testing.T) {
	inBubble(t, Options{Chain: chainOf(formats())}, func(h *house) {
		h.send("q", message("app/x", "x:1"), message("app/x", "broken"))
		in, r := h.receive("q", core.ReceiveAndDelete, "app/y", 5)
		defer r.Close()
		ds := in.take()
		if got, want := shown(ds), "app/y y:1, app/x broken"; got != want || !ds[0].LockToken.IsZero() {
			h.t.Errorf("got %s, want %s, without locks", got, want)
		}
		if left, err := h.Peek(h.t.Context(), root, core.At("q"), nil, 1, 10); err != nil || len(left) > 0 {
			h.t.Errorf("left: %s, %v", shown(left), err)
		}
	})
}

func TestReceiversWithoutSerializersAreTheBrokers(t *testing.T) {
	inBubble(t, Options{}, func(h *house) {
		o := core.ReceiverOptions{Accept: "app/x", Deliver: func([]core.Delivery) {}}
		var kinds [2]string
		for i, b := range []core.Broker{h.inner, h} {
			r, err := b.OpenReceiver(context.Background(), root, core.At("q"), o)
			if err != nil {
				h.t.Fatal(err)
			}
			defer r.Close()
			kinds[i] = fmt.Sprintf("%T", r)
		}
		if kinds[0] != kinds[1] {
			h.t.Errorf("a %s stands before the %s", kinds[1], kinds[0])
		}
	})
}
