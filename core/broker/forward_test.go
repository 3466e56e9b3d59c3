package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/forward"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

func forwardTo(name string) func(*core.Settings) {
	return func(s *core.Settings) { s.ForwardTo = name }
}

func forwardDead(name string) func(*core.Settings) {
	return func(s *core.Settings) { s.ForwardDeadLetteredMessagesTo = name }
}

// update changes an entity's settings.
func (b *started) update(t *testing.T, name string, change func(*core.Settings)) {
	t.Helper()
	ent, err := b.store.Entity(t.Context(), "ns", name)
	if err != nil {
		t.Fatal(err)
	}
	change(&ent.Settings)
	if _, err := b.UpdateEntity(t.Context(), root, name, ent.Settings); err != nil {
		t.Fatal(err)
	}
}

// rests waits until all that can be done now is done.
func rests() { time.Sleep(time.Millisecond); synctest.Wait() }

// holds compares what addresses hold with what they should.
func (b *started) holds(t *testing.T, want map[string]string) {
	t.Helper()
	for address, bodies := range want {
		if got := b.bodiesIn(t, address); got != bodies {
			t.Errorf("%s holds %q, want %q", address, got, bodies)
		}
	}
}

func TestAnOrderTravelsThroughQueuesAndTopics(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "fulfilment", partitioned)
		b.createTopic(t, "orders")
		b.create(t, "intake", forwardTo("sb://somewhere/Orders"))
		west := b.subscribe(t, "orders", "west", []core.Rule{sqlRule("r", "region = 'west'", "SET stamped = 1")}, forwardTo("fulfilment"))
		east := b.subscribe(t, "orders", "east", []core.Rule{sqlRule("r", "region = 'east'", "")}, forwardTo("fulfilment"))
		numbers := b.send(t, "intake", with(text("1"), core.Property{Key: "region", Value: "west"}),
			with(text("2"), core.Property{Key: "region", Value: "east"}), text("3"))
		rests()
		b.holds(t, map[string]string{"intake": "", "orders": "", west: "", east: "", "fulfilment": "1 2", "intake/$Transfer/$DeadLetterQueue": ""})
		for _, d := range b.all(t, "fulfilment") {
			want := numbers[d.Body.Bytes[0]-'1']
			if d.EnqueuedSequenceNumber != want || d.DeadLetterSource != "" {
				t.Errorf("message %s: came from %d (dead at %q), want %d", d.Body.Bytes, d.EnqueuedSequenceNumber, d.DeadLetterSource, want)
			}
			if string(d.Body.Bytes) == "1" && property(t, d, "stamped") == nil {
				t.Error("the action was lost on the way")
			}
		}
	})
}

func TestForwardedMessagesKeepTheirOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "c")
		b.create(t, "b", forwardTo("c"))
		b.create(t, "a", forwardTo("b"))
		b.send(t, "a", numbered(1000)...)
		rests()
		in := b.receive(t, "c", core.PeekLock, 1000)
		for i, d := range in.take() {
			if string(d.Body.Bytes) != fmt.Sprint(i) {
				t.Fatalf("message %d is %s", i, d.Body.Bytes)
			}
		}
	})
}

func TestAKeyDecidesWhereAForwardedMessageLies(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "to", partitioned, sessions)
		b.create(t, "from", partitioned, forwardTo("to"))
		for i := range 20 {
			m := text("m")
			m.SessionID = fmt.Sprint("session", i)
			b.send(t, "from", m)
		}
		rests()
		ds := b.all(t, "to")
		for _, d := range ds {
			if index, _ := core.SplitSequenceNumber(d.SequenceNumber); index != core.PartitionOf(d.SessionID, 4) {
				t.Errorf("session %s lies in partition %d", d.SessionID, index)
			}
		}
		if len(ds) != 20 {
			t.Errorf("%d messages arrived, want 20", len(ds))
		}
	})
}

func TestDeadLettersAreForwardedWithTheirSource(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "graveyard")
		b.create(t, "q", forwardDead("graveyard"), func(s *core.Settings) { s.DeadLetteringOnMessageExpiration = true })
		b.createTopic(t, "t")
		sub := b.subscribe(t, "t", "s", nil, sessions, forwardDead("graveyard"))
		in := b.receive(t, "q", core.PeekLock, 1)
		numbers := b.send(t, "q", text("rejected"))
		settle(t, b, "q", core.DeadLetterOutcome, in.take()...)
		brief := text("expired")
		brief.TimeToLive = 90 * time.Second
		b.send(t, "q", brief)
		b.send(t, "t", text("no session"))
		rests()
		b.holds(t, map[string]string{"graveyard": "no rejected session", "q/$DeadLetterQueue": "", sub + "/$DeadLetterQueue": ""})
		in.Close()
		time.Sleep(91 * time.Second)
		synctest.Wait()
		for _, d := range b.all(t, "graveyard") {
			source := "q"
			if string(d.Body.Bytes) == "no session" {
				source = sub
			}
			if d.DeadLetterSource != source || property(t, d, core.PropertyDeadLetterReason) == "" {
				t.Errorf("%s: dead at %q because of %v, want %q", d.Body.Bytes, d.DeadLetterSource, property(t, d, core.PropertyDeadLetterReason), source)
			}
			if string(d.Body.Bytes) == "rejected" && d.EnqueuedSequenceNumber != numbers[0] {
				t.Errorf("rejected: came from %d, want %d", d.EnqueuedSequenceNumber, numbers[0])
			}
		}
		b.holds(t, map[string]string{"graveyard": "expired no rejected session"})
	})
}

func TestAMessageIsForwardedFourTimes(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q5")
		for i := 4; i >= 0; i-- {
			b.create(t, fmt.Sprint("q", i), forwardTo(fmt.Sprint("q", i+1)))
		}
		b.send(t, "q1", text("four"))
		b.send(t, "q0", text("five"))
		rests()
		b.holds(t, map[string]string{"q5": "four", "q4": "", "q4/$DeadLetterQueue": "five"})
		dead := b.all(t, "q4/$DeadLetterQueue")
		if property(t, dead[0], core.PropertyDeadLetterReason) != core.ReasonMaxHops || property(t, dead[0], core.PropertyDeadLetterDescription) != core.DescriptionMaxHops {
			t.Errorf("dead letter %v", dead[0])
		}
	})
}

func TestCyclesEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "a")
		b.create(t, "b", forwardTo("a"), forwardDead("a"))
		b.update(t, "a", func(s *core.Settings) { s.ForwardTo, s.ForwardDeadLetteredMessagesTo = "b", "b" })
		b.send(t, "a", text("m"))
		rests()
		b.holds(t, map[string]string{"a": "", "b": "", "a/$DeadLetterQueue": "", "b/$DeadLetterQueue": "", "a/$Transfer/$DeadLetterQueue": "m"})
		dead := b.all(t, "a/$Transfer/$DeadLetterQueue")[0]
		if got := property(t, dead, core.PropertyDeadLetterReason); got != core.ReasonMaxHops {
			t.Errorf("reason %v", got)
		}
	})
}

// waiting is a broker of a gateway that is told to leave messages at their source.
func waiting(t *testing.T, f func(t *testing.T, b *started)) {
	t.Helper()
	t.Parallel()
	inBubbleWith(t, Options{Namespace: "ns", ForwardWait: true}, f)
}

// transferDead checks the transfer dead letters of an entity, and why they are there.
func (b *started) transferDead(t *testing.T, name, bodies, reason string) {
	t.Helper()
	address := name + "/$Transfer/$DeadLetterQueue"
	b.holds(t, map[string]string{address: bodies})
	for _, d := range b.all(t, address) {
		if got := property(t, d, core.PropertyDeadLetterReason); got != reason {
			t.Errorf("%s: %s is there because of %v, want %s", address, d.Body.Bytes, got, reason)
		}
	}
}

func TestADisabledDestinationMakesTransferDeadLetters(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "to", func(s *core.Settings) { s.Status = core.StatusSendDisabled })
		b.createTopic(t, "t")
		b.create(t, "from", forwardTo("to"))
		b.create(t, "parts", partitioned, forwardTo("to"))
		sub := b.subscribe(t, "t", "s", nil, forwardTo("to"))
		via := b.create(t, "via")
		b.send(t, "from", numbered(3)...)
		for range 4 {
			b.send(t, "parts", text("p"))
		}
		b.send(t, "t", text("copy"))
		m := text("transfer")
		m.Transit = &core.Transit{Destination: "to"}
		partition(&via, 0, core.Transfer).In(b.store).Append(t.Context(), each(m))
		time.Sleep(forward.ScanInterval)
		rests()
		b.holds(t, map[string]string{"to": "", "from": "", sub: "", "via/$Transfer": "", "from/$DeadLetterQueue": ""})
		b.transferDead(t, "from", "0 1 2", forward.ReasonDisabled)
		b.transferDead(t, "parts", "p p p p", forward.ReasonDisabled)
		b.transferDead(t, sub, "copy", forward.ReasonDisabled)
		b.transferDead(t, "via", "transfer", forward.ReasonDisabled)
		b.update(t, "to", func(s *core.Settings) { s.Status = core.StatusActive })
		b.send(t, "from", text("later"))
		rests()
		b.holds(t, map[string]string{"to": "later"})
	})
}

// azure-service-bus#666: they stay in their queue, and go on when there is room.
func TestDeadLettersWaitForADestinationThatTakesNone(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "closed", func(s *core.Settings) { s.Status = core.StatusSendDisabled })
		b.create(t, "full", func(s *core.Settings) { s.MaxSizeInMegabytes = 1 })
		for range 6 {
			b.send(t, "full", text(strings.Repeat("x", 200<<10)))
		}
		for from, to := range map[string]string{"a": "closed", "b": "full"} {
			b.create(t, from, forwardDead(to))
			in := b.receive(t, from, core.PeekLock, 3)
			for i := range 3 {
				b.send(t, from, text(fmt.Sprint(i)))
				settle(t, b, from, core.DeadLetterOutcome, in.take()...)
			}
		}
		wait := func() {
			time.Sleep(forward.MaxDeadHold)
			synctest.Wait()
		}
		wait()
		stays := map[string]string{
			"a/$DeadLetterQueue": "0 1 2", "b/$DeadLetterQueue": "0 1 2",
			"a/$Transfer/$DeadLetterQueue": "", "b/$Transfer/$DeadLetterQueue": "",
		}
		b.holds(t, stays)
		calls := b.store.lockCalls()
		time.Sleep(time.Hour)
		if n := b.store.lockCalls() - calls; n > 300 {
			t.Errorf("tried %d times in an hour", n)
		}
		b.holds(t, stays)
		// With more credit, the receiver would lock them again when their locks end, some of them until the moment of the last look.
		if got := len(b.receive(t, "a/$DeadLetterQueue", core.PeekLock, 3).take()); got != 3 {
			t.Errorf("%d dead letters can be received meanwhile, want 3", got)
		}
		time.Sleep(2 * time.Minute) // their locks end
		b.update(t, "closed", func(s *core.Settings) { s.Status = core.StatusActive })
		b.receive(t, "full", core.ReceiveAndDelete, 6).take()
		wait()
		b.holds(t, map[string]string{"a/$DeadLetterQueue": "", "b/$DeadLetterQueue": "", "closed": "0 1 2", "full": "0 1 2"})
	})
}

func TestAFullDestinationMakesTransferDeadLetters(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "to", func(s *core.Settings) { s.MaxSizeInMegabytes = 1 })
		b.create(t, "from", forwardTo("to"))
		big := strings.Repeat("x", 200<<10)
		for range 8 {
			b.send(t, "from", text(big))
		}
		rests()
		b.transferDead(t, "from", big+" "+big, forward.ReasonFull)
		_, here, _ := b.Entity(t.Context(), root, "from")
		if _, there, err := b.Entity(t.Context(), root, "to"); err != nil || here.Active != 0 || there.Active != 6 {
			t.Errorf("%d messages are at the source and %d arrived, %v, want none and 6", here.Active, there.Active, err)
		}
		in := b.receive(t, "to", core.ReceiveAndDelete, 1)
		in.take()
		b.send(t, "from", text("small"))
		rests()
		if _, there, err := b.Entity(t.Context(), root, "to"); err != nil || there.Active != 6 {
			t.Errorf("%d messages are there once there is room, %v, want 6", there.Active, err)
		}
	})
}

// Another gateway may have enabled the destination a moment ago.
func TestDestinationIsReloadedBeforeItCountsAsDisabled(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		to := b.create(t, "to", func(s *core.Settings) { s.Status = core.StatusDisabled })
		b.create(t, "from", forwardTo("to"))
		to.Settings.Status = core.StatusActive
		b.stale(t, to)
		b.send(t, "from", text("m"))
		rests()
		b.holds(t, map[string]string{"to": "m", "from/$Transfer/$DeadLetterQueue": ""})
	})
}

// stale changes an entity in the store while the broker goes on with what it knows.
func (b *started) stale(t *testing.T, ent core.Entity) {
	t.Helper()
	e, err := b.entity(t.Context(), ent.Name)
	if err != nil {
		t.Fatal(err)
	}
	old := e.View()
	if _, err := b.store.UpdateEntity(t.Context(), ent, core.NamespaceQuotas{}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	e.current.Store(old)
	e.readAt.Store(time.Now().UnixNano())
	e.dirty.Store(false)
}

func TestMessagesWaitForADestinationThatTakesNone(t *testing.T) {
	waiting(t, func(t *testing.T, b *started) {
		b.create(t, "to", func(s *core.Settings) { s.Status = core.StatusSendDisabled })
		b.create(t, "from", forwardTo("to"), func(s *core.Settings) { s.MaxDeliveryCount = 1 })
		b.send(t, "from", numbered(3)...)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		b.holds(t, map[string]string{"from": "0 1 2", "to": "", "from/$DeadLetterQueue": "", "from/$Transfer/$DeadLetterQueue": ""})
		calls := b.store.lockCalls()
		time.Sleep(time.Hour)
		if n := b.store.lockCalls() - calls; n > 800 {
			t.Errorf("tried %d times in an hour", n)
		}
		b.update(t, "to", func(s *core.Settings) { s.Status = core.StatusActive })
		rests()
		b.holds(t, map[string]string{"from": "", "to": "0 1 2"})
		for i, d := range b.all(t, "to") {
			if string(d.Body.Bytes) != fmt.Sprint(i) {
				t.Errorf("message %d is %s", i, d.Body.Bytes)
			}
		}
	})
}

func TestMessagesWaitForADestinationThatIsFull(t *testing.T) {
	waiting(t, func(t *testing.T, b *started) {
		b.create(t, "to", func(s *core.Settings) { s.MaxSizeInMegabytes = 1 })
		b.create(t, "from", forwardTo("to"))
		big := strings.Repeat("x", 200<<10)
		for range 12 {
			b.send(t, "from", text(big))
		}
		rests()
		_, here, _ := b.Entity(t.Context(), root, "from")
		_, there, err := b.Entity(t.Context(), root, "to")
		if err != nil || here.Active != 6 || there.Active != 6 {
			t.Errorf("%d messages wait and %d arrived, %v, want 6 and 6", here.Active, there.Active, err)
		}
		in := b.receive(t, "to", core.ReceiveAndDelete, 12)
		time.Sleep(forward.MaxHold)
		if got := in.take(); len(got) != 12 {
			t.Errorf("%d messages arrived, want 12", len(got))
		}
	})
}

func TestWhatCannotArriveIsATransferDeadLetter(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "strict", sessions)
		b.create(t, "small")
		b.create(t, "gone")
		b.create(t, "a", forwardTo("strict"), forwardDead("gone"))
		b.create(t, "b", forwardTo("small"), func(s *core.Settings) { s.MaxMessageSizeInKilobytes = 1024 })
		b.create(t, "c", forwardTo("gone"))
		if err := b.DeleteEntity(t.Context(), root, "gone"); err != nil {
			t.Fatal(err)
		}
		fits := text("fits")
		fits.SessionID = "s"
		numbers := b.send(t, "a", text("unsuited"), fits)
		b.send(t, "b", text(strings.Repeat("x", 300_000)), text("fits"))
		b.send(t, "c", text("lost"))
		rests()
		b.holds(t, map[string]string{"a": "", "b": "", "c": "", "strict": "fits", "small": "fits", "a/$Transfer/$DeadLetterQueue": "unsuited", "c/$Transfer/$DeadLetterQueue": "lost"})
		for name, want := range map[string]string{"a": core.ReasonNoSession, "b": forward.ReasonTooLarge, "c": forward.ReasonNoDestination} {
			ds := b.all(t, name+"/$Transfer/$DeadLetterQueue")
			if len(ds) != 1 || property(t, ds[0], core.PropertyDeadLetterReason) != want {
				t.Errorf("%s: transfer dead letters %v, want one because of %s", name, ds, want)
			}
			if name == "a" && ds[0].EnqueuedSequenceNumber != numbers[0] {
				t.Errorf("it came from %d, want %d", ds[0].EnqueuedSequenceNumber, numbers[0])
			}
		}
		_, rt, err := b.Entity(t.Context(), root, "c")
		if err != nil || rt.TransferDeadLetter != 1 || rt.DeadLetter != 0 {
			t.Errorf("counts: got %+v, %v, want a transfer dead letter", rt, err)
		}
		in := b.receive(t, "c/$Transfer/$DeadLetterQueue", core.PeekLock, 1)
		settle(t, b, "c/$Transfer/$DeadLetterQueue", core.Complete, in.take()...)
	})
}

func TestADeadLetterThatCannotBeForwardedTellsBothReasons(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "gone")
		b.create(t, "q", forwardDead("gone"))
		if err := b.DeleteEntity(t.Context(), root, "gone"); err != nil {
			t.Fatal(err)
		}
		in := b.receive(t, "q", core.PeekLock, 1)
		b.send(t, "q", text("m"))
		why := core.Settlement{Token: in.take()[0].LockToken, Outcome: core.DeadLetterOutcome, Properties: core.ReasonProperties("Poison", "it smells")}
		if errs := b.Settle(t.Context(), root, core.At("q"), []core.Settlement{why}); errs[0] != nil {
			t.Fatal(errs)
		}
		rests()
		ds := b.all(t, "q/$Transfer/$DeadLetterQueue")
		if len(ds) != 1 {
			t.Fatalf("transfer dead letters: %v", ds)
		}
		said := fmt.Sprint(property(t, ds[0], core.PropertyDeadLetterDescription))
		if !strings.Contains(said, "'gone'") || !strings.Contains(said, "Poison") {
			t.Errorf("it says %q", said)
		}
	})
}

func TestTransfersGoWhereTheySay(t *testing.T) {
	waiting(t, func(t *testing.T, b *started) {
		b.create(t, "x")
		b.create(t, "y", func(s *core.Settings) { s.Status = core.StatusDisabled })
		ent := b.create(t, "via", partitioned)
		for i, to := range []string{"X", "y", "nowhere", "", "x"} {
			m := text(fmt.Sprint(i))
			m.Transit = &core.Transit{Destination: to}
			if a := partition(&ent, 1, core.Transfer).In(b.store).Append(t.Context(), each(m)); a[0].Err != nil {
				t.Fatal(a[0].Err)
			}
		}
		_, rt, err := b.Entity(t.Context(), root, "via")
		if err != nil || rt.Transfer != 5 {
			t.Errorf("counts: got %+v, %v, want 5 on the way", rt, err)
		}
		time.Sleep(forward.ScanInterval)
		synctest.Wait()
		b.holds(t, map[string]string{"x": "0 4", "via/$Transfer": "1", "via/$Transfer/$DeadLetterQueue": "2 3"})
		for _, d := range b.all(t, "via/$Transfer/$DeadLetterQueue") {
			if got := property(t, d, core.PropertyDeadLetterReason); got != forward.ReasonNoDestination {
				t.Errorf("reason %v", got)
			}
		}
		b.update(t, "y", func(s *core.Settings) { s.Status = core.StatusActive })
		rests()
		b.holds(t, map[string]string{"y": "1", "via/$Transfer": ""})
	})
}

func TestABacklogThatCouldNotBeCountedIsCountedSoon(t *testing.T) {
	waiting(t, func(t *testing.T, b *started) {
		b.create(t, "to")
		ent := b.create(t, "via")
		m := text("left")
		m.Transit = &core.Transit{Destination: "to"}
		partition(&ent, 0, core.Transfer).In(b.store).Append(t.Context(), each(m))
		b.store.fail(core.Busy, 0)
		time.Sleep(forward.ScanInterval)
		synctest.Wait()
		b.store.fail(nil)
		time.Sleep(forward.ScanRetry)
		synctest.Wait()
		b.holds(t, map[string]string{"to": "left", "via/$Transfer": ""})
	})
}

func TestManyStuckTransfersDoNotHoldUpOthers(t *testing.T) {
	waiting(t, func(t *testing.T, b *started) {
		b.create(t, "stuck", func(s *core.Settings) { s.Status = core.StatusDisabled })
		b.create(t, "open")
		ent := b.create(t, "via")
		for i := range 1001 {
			m := text(fmt.Sprint(i))
			m.Transit = &core.Transit{Destination: "stuck"}
			if i == 1000 {
				m.Transit.Destination = "open"
			}
			partition(&ent, 0, core.Transfer).In(b.store).Append(t.Context(), each(m))
		}
		time.Sleep(forward.ScanInterval)
		synctest.Wait()
		b.holds(t, map[string]string{"open": "1000"})
	})
}

func TestADisabledSourceKeepsItsMessages(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "to")
		b.create(t, "from", forwardTo("to"))
		rests() // or a step that began before would move what comes after
		b.update(t, "from", func(s *core.Settings) { s.Status = core.StatusReceiveDisabled })
		b.send(t, "from", text("m"))
		time.Sleep(time.Minute)
		if stats, err := storetest.Stats(t.Context(), b.store, b.at(t, "from", core.Main)); err != nil || stats.Ready != 1 {
			t.Errorf("it holds %+v, %v, want its message", stats, err)
		}
		b.update(t, "from", func(s *core.Settings) { s.Status = core.StatusActive })
		rests()
		b.holds(t, map[string]string{"to": "m"})
	})
}

// at is the first partition of an entity's sub-queue.
func (b *started) at(t *testing.T, name string, sub core.SubQueue) core.Partition {
	t.Helper()
	ent, err := b.store.Entity(t.Context(), "ns", name)
	if err != nil {
		t.Fatal(err)
	}
	return partition(&ent, 0, sub)
}

func TestForwardingFollowsTheSettings(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "x")
		b.create(t, "y")
		b.create(t, "from")
		in := b.receive(t, "from", core.PeekLock, 1)
		b.send(t, "from", text("0"), text("1"))
		first := in.take()
		b.update(t, "from", forwardTo("x"))
		time.Sleep(forward.LongestYield + 2*forward.LongYield) // a gateway that forwards might have the locked one
		if errs := in.closures(); len(errs) != 1 || !errors.Is(errs[0], core.NotAllowed) {
			t.Errorf("the receiver was told %v, want to receive from x", errs)
		}
		if _, err := b.OpenReceiver(t.Context(), root, core.At("from"), core.ReceiverOptions{}); !errors.Is(err, core.NotAllowed) {
			t.Errorf("receive from what forwards: got %v", err)
		}
		b.holds(t, map[string]string{"x": "1"})
		settle(t, b, "from", core.Abandon, first...)
		rests()
		b.holds(t, map[string]string{"x": "0 1", "from": ""})
		b.update(t, "from", forwardTo("y"))
		b.send(t, "from", text("2"))
		rests()
		b.update(t, "from", forwardTo(""))
		b.send(t, "from", text("3"))
		time.Sleep(time.Hour)
		b.holds(t, map[string]string{"x": "0 1", "y": "2", "from": "3"})
		if b.forwarders.Len() != 0 {
			t.Errorf("%d forwarders are left", b.forwarders.Len())
		}
	})
}

func TestAnEntityForwardsOnlyToAnotherThatTakesMessages(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.createTopic(t, "t")
		b.subscribe(t, "t", "s", nil)
		for want, change := range map[string]func(*core.Settings){
			"ForwardTo is 'new', which is not a queue or topic of this namespace: create it first.":     forwardTo("new"), // which exists only then
			"ForwardTo is 'missing', which is not a queue or topic of this namespace: create it first.": forwardTo("missing"),
			"ForwardTo is 't/Subscriptions/s', which is a subscription: specify a queue or topic.":      forwardTo("t/Subscriptions/s"),
		} {
			s := core.DefaultSettings(core.Queue)
			change(&s)
			if _, err := b.CreateEntity(t.Context(), root, core.Queue, "new", s, nil); !errors.Is(err, core.InvalidArgument) || core.TextOf(err) != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		local := core.Identity{{Rights: core.AllRights, Scope: "mine"}}
		s := core.DefaultSettings(core.Queue)
		s.ForwardTo = "q"
		if _, err := b.CreateEntity(t.Context(), local, core.Queue, "mine", s, nil); !errors.Is(err, core.Unauthorized) {
			t.Errorf("without Send on the destination: got %v", err)
		}
		s.AutoDeleteOnIdle = 10 * time.Minute
		ent, err := b.CreateEntity(t.Context(), root, core.Queue, "mine", s, nil)
		if err != nil || ent.Settings.AutoDeleteOnIdle != 10*time.Minute || ent.Settings.ForwardTo != "q" {
			t.Errorf("got %+v, %v, want a queue that is deleted when idle", ent.Settings, err)
		}
		if _, err := b.UpdateEntity(t.Context(), local, "mine", ent.Settings); err != nil {
			t.Errorf("the manager of the entity leaves the destination alone: got %v", err)
		}
	})
}

// A client whose token is for the source alone may write the destination that is there in other letters.
func TestADestinationInOtherLettersIsTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "target")
		b.create(t, "other")
		source := b.create(t, "source", forwardTo("TARGET"))
		own := core.Identity{{Rights: core.AllRights, Scope: "source"}}
		for to, code := range map[string]core.Code{"target": "", "Target": "", "other": core.Unauthorized} {
			s := source.Settings
			s.ForwardTo = to
			if _, err := b.UpdateEntity(t.Context(), own, "source", s); core.CodeOf(err) != code {
				t.Errorf("%s: got %v, want %q", to, err, code)
			}
		}
	})
}

func TestASubscriptionThatForwardsIsNotDeletedWhenIdle(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.createTopic(t, "t")
		s := core.DefaultSettings(core.Subscription)
		s.ForwardTo, s.AutoDeleteOnIdle = "q", 10*time.Minute
		made, err := b.CreateEntity(t.Context(), root, core.Subscription, "t/Subscriptions/s", s, nil)
		if err != nil || made.Settings.AutoDeleteOnIdle != core.Forever {
			t.Errorf("got %+v, %v", made.Settings, err)
		}
	})
}

// Only an update can name the entity itself: at its creation it does not exist yet.
func TestWhatAnEntityForwardsToItselfEndsAsADeadLetter(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.update(t, "q", forwardTo("q"))
		b.update(t, "q", forwardDead("q"))
		b.send(t, "q", text("round"))
		rests()
		time.Sleep(time.Hour)
		dead := b.all(t, "q/$Transfer/$DeadLetterQueue")
		if len(dead) != 1 || property(t, dead[0], core.PropertyDeadLetterReason) != core.ReasonMaxHops {
			t.Errorf("got %v", dead)
		}
	})
}

func TestAnEntityWithSessionsForwards(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "plain")
		b.create(t, "ordered", sessions)
		b.create(t, "a", sessions, forwardTo("plain"))
		b.create(t, "b", sessions, forwardTo("ordered"))
		for _, from := range []string{"a", "b"} {
			if _, err := b.AcceptSession(t.Context(), root, core.At(from), core.SessionOptions{Next: true}); !errors.Is(err, core.NotAllowed) {
				t.Errorf("accept a session of what forwards: got %v", err)
			}
			m := text("from-" + from)
			m.SessionID = "s"
			b.send(t, from, m)
		}
		rests()
		b.holds(t, map[string]string{"plain": "from-a"})
		held, err := b.AcceptSession(t.Context(), root, core.At("ordered"), core.SessionOptions{ID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		held.Close()
		for name, change := range map[string]func(*core.Settings){"ordered": forwardTo("plain"), "a": forwardTo("")} {
			ent, _, err := b.Entity(t.Context(), root, name)
			if err != nil {
				t.Fatal(err)
			}
			if change(&ent.Settings); !errors.Is(made(b.UpdateEntity(t.Context(), root, name, ent.Settings)), core.InvalidArgument) {
				t.Errorf("%s: what lies in sessions, or not, was to change", name)
			}
		}
	})
}

func TestAForeignHostIsNotTakenForThisNamespace(t *testing.T) {
	t.Parallel()
	b := New(memory.New(memory.Options{}), Options{Namespace: "ns", Answers: func(host string) bool { return host == "bus.example" }})
	t.Cleanup(b.stop)
	if err := made(b.CreateEntity(t.Context(), root, core.Queue, "q", core.DefaultSettings(core.Queue), nil)); err != nil {
		t.Fatal(err)
	}
	called := core.WithHosts(t.Context(), []string{"Gateway:5671"})
	for i, c := range []struct{ given, kept string }{
		{"q", "q"},
		{"SB://BUS.example.:5671/Q", "sb://bus.example.:5671/Q"},
		{"https://GATEWAY/q", "https://gateway/q"},
		{"sb://LocalHost:8080/q", "sb://localhost:8080/q"},
		{"sb://192.0.2.1/q", "sb://192.0.2.1/q"},
		{"sb://[2001:DB8::1]:5671/q", "sb://[2001:db8::1]:5671/q"},
		{"sb://other.example/q", ""},
		{"sb://bus.example.org/q", ""},
	} {
		s := core.DefaultSettings(core.Queue)
		s.ForwardTo, s.ForwardDeadLetteredMessagesTo = c.given, c.given
		got, err := b.CreateEntity(called, root, core.Queue, fmt.Sprint("from", i), s, nil)
		if c.kept == "" {
			if !errors.Is(err, core.InvalidArgument) {
				t.Errorf("%s: got %v, want a refusal", c.given, err)
			}
			continue
		}
		if err != nil || got.Settings.ForwardTo != c.kept || got.Settings.ForwardDeadLetteredMessagesTo != c.kept {
			t.Errorf("%s: got %q, %v, want %q", c.given, got.Settings.ForwardTo, err, c.kept)
		}
	}
}

func TestIdlePumpsCostNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "to")
		for i := range 20 {
			b.create(t, fmt.Sprint("from", i), forwardTo("to"))
			b.createTopic(t, fmt.Sprint("t", i))
		}
		later := text("m")
		later.ScheduledEnqueueTime = b.store.Now().Add(time.Hour)
		b.send(t, "t3", later)
		rests()
		if n := b.forwarders.Len(); n != 21 {
			t.Errorf("%d forwarders, want one for each queue that forwards, and one for the topic with a schedule", n)
		}
		calls := b.store.lockCalls()
		time.Sleep(59 * time.Minute)
		if n := b.store.lockCalls() - calls; n != 0 {
			t.Errorf("idle forwarders locked %d times in an hour", n)
		}
		time.Sleep(2*time.Minute + forward.IdleLife)
		synctest.Wait()
		if n := b.forwarders.Len(); n != 20 {
			t.Errorf("%d forwarders, want none for the topic any more", n)
		}
	})
}

func TestAPumpTakesOverWhatAnotherGatewayLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		sub := b.subscribe(t, "t", "s", nil)
		other := New(b.store.Store, Options{Namespace: "ns"}) // it does not run
		defer other.stop()
		s, err := other.OpenSender(t.Context(), root, core.At("t"), nil)
		if err != nil {
			t.Fatal(err)
		}
		m := text("m")
		m.ScheduledEnqueueTime = b.store.Now().Add(10 * time.Minute)
		s.Send(t.Context(), each(m))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		b.holds(t, map[string]string{sub: "m"})
	})
}

// lateStore stores what one call to the partition sends only after the call has failed.
type lateStore struct {
	core.Store
	partition core.Ref
	late      atomic.Bool
}

func (s *lateStore) Partition(r core.Ref, p core.Policy) core.Partition {
	at := s.Store.Partition(r, p)
	if r == s.partition {
		at = core.Partition{Ref: r, Policy: p, Operations: latePartition{at, s}}
	}
	return at
}

type latePartition struct {
	core.Partition
	*lateStore
}

func (p latePartition) Append(ctx context.Context, groups [][]*core.Message) []core.Appended {
	if !p.late.CompareAndSwap(true, false) {
		return p.Operations.Append(ctx, groups)
	}
	time.AfterFunc(9*time.Second, func() { p.Operations.Append(context.Background(), groups) })
	<-ctx.Done()
	return failed(len(groups), core.Busy)
}

func TestACallThatStoresTooLateMakesNoSecondCopy(t *testing.T) {
	const nothing, destination, forwarding = "nothing else happens", "the destination is changed", "the forwarding is set anew"
	for _, happens := range []string{nothing, destination, forwarding} {
		t.Run(happens, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *started) {
				ent := b.create(t, "b")
				b.create(t, "a", forwardTo("b"))
				late := &lateStore{Store: b.store.Store, partition: b.ns.Partition(&ent, 0, core.Main).Ref}
				late.late.Store(true)
				b.wrap(late)
				b.send(t, "a", text("m"))
				time.Sleep(forward.CallTimeout + time.Second)
				switch happens {
				case destination:
					b.update(t, "b", func(s *core.Settings) { s.MaxDeliveryCount = 7 })
				case forwarding:
					b.update(t, "a", func(s *core.Settings) { s.ForwardTo = "" })
					rests()
					b.update(t, "a", forwardTo("b"))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				b.holds(t, map[string]string{"a": "", "b": "m"})
			})
		})
	}
}

func TestAListReadBeforeAChangeDoesNotUndoIt(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		for _, name := range []string{"a", "b", "begins", "changes", "ends", "new"} {
			b.create(t, name)
		}
		b.update(t, "changes", forwardTo("a"))
		b.update(t, "ends", forwardTo("a"))
		synctest.Wait()
		read, pass := make(chan struct{}), make(chan struct{})
		var first sync.Once
		b.store.onList(func(l core.Listing, _ []core.Entity) {
			if l.Kind == core.Queue {
				first.Do(func() { close(read); <-pass })
			}
		})
		b.forwarders.Changed("") // as when another gateway has left: they look at all entities
		<-read
		b.update(t, "begins", forwardTo("b"))
		b.update(t, "changes", forwardTo("b"))
		b.update(t, "ends", forwardTo(""))
		if err := b.DeleteEntity(t.Context(), root, "new"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		b.create(t, "new", forwardTo("b"))
		synctest.Wait()
		close(pass)
		synctest.Wait()
		for _, name := range []string{"begins", "changes", "ends", "new"} {
			b.send(t, name, text(name))
		}
		time.Sleep(time.Second)
		b.holds(t, map[string]string{"a": "", "b": "begins changes new", "begins": "", "changes": "", "ends": "ends", "new": ""})
	})
}
