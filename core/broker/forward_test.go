package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
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
			if index, _ := core.SplitSequenceNumber(d.SequenceNumber); index != partitionOf(d.SessionID, 4) {
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

func TestMessagesWaitForADestinationThatTakesNone(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
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
	inBubble(t, func(t *testing.T, b *started) {
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
		time.Sleep(lastHold)
		if got := in.take(); len(got) != 12 {
			t.Errorf("%d messages arrived, want 12", len(got))
		}
	})
}

func TestWhatCannotArriveIsATransferDeadLetter(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "strict", sessions)
		b.create(t, "small", func(s *core.Settings) { s.MaxMessageSizeInKilobytes = 1 })
		b.create(t, "gone")
		b.create(t, "a", forwardTo("strict"), forwardDead("gone"))
		b.create(t, "b", forwardTo("small"))
		b.create(t, "c", forwardTo("gone"))
		if err := b.DeleteEntity(t.Context(), root, "gone"); err != nil {
			t.Fatal(err)
		}
		fits := text("fits")
		fits.SessionID = "s"
		numbers := b.send(t, "a", text("unsuited"), fits)
		b.send(t, "b", text(strings.Repeat("x", 2000)), text("fits"))
		b.send(t, "c", text("lost"))
		rests()
		b.holds(t, map[string]string{"a": "", "b": "", "c": "", "strict": "fits", "small": "fits", "a/$Transfer/$DeadLetterQueue": "unsuited", "c/$Transfer/$DeadLetterQueue": "lost"})
		for name, want := range map[string]string{"a": core.ReasonNoSession, "b": reasonTooLarge, "c": reasonNoDestination} {
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
		why := core.Settlement{Token: in.take()[0].LockToken, Outcome: core.DeadLetterOutcome, Properties: because("Poison", "it smells")}
		if errs := b.Settle(t.Context(), root, "q", []core.Settlement{why}); errs[0] != nil {
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
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "x")
		b.create(t, "y", func(s *core.Settings) { s.Status = core.StatusDisabled })
		ent := b.create(t, "via", partitioned)
		for i, to := range []string{"X", "y", "nowhere", "", "x"} {
			m := text(fmt.Sprint(i))
			m.Transit = &core.Transit{Destination: to}
			if a := b.store.Append(t.Context(), partition(&ent, 1, core.Transfer), each(m)); a[0].Err != nil {
				t.Fatal(a[0].Err)
			}
		}
		_, rt, err := b.Entity(t.Context(), root, "via")
		if err != nil || rt.Transfer != 5 {
			t.Errorf("counts: got %+v, %v, want 5 on the way", rt, err)
		}
		time.Sleep(patrolInterval)
		synctest.Wait()
		b.holds(t, map[string]string{"x": "0 4", "via/$Transfer": "1", "via/$Transfer/$DeadLetterQueue": "2 3"})
		for _, d := range b.all(t, "via/$Transfer/$DeadLetterQueue") {
			if got := property(t, d, core.PropertyDeadLetterReason); got != reasonNoDestination {
				t.Errorf("reason %v", got)
			}
		}
		b.update(t, "y", func(s *core.Settings) { s.Status = core.StatusActive })
		rests()
		b.holds(t, map[string]string{"y": "1", "via/$Transfer": ""})
	})
}

func TestManyStuckTransfersDoNotHoldUpOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "stuck", func(s *core.Settings) { s.Status = core.StatusDisabled })
		b.create(t, "open")
		ent := b.create(t, "via")
		for i := range 1001 {
			m := text(fmt.Sprint(i))
			m.Transit = &core.Transit{Destination: "stuck"}
			if i == 1000 {
				m.Transit.Destination = "open"
			}
			b.store.Append(t.Context(), partition(&ent, 0, core.Transfer), each(m))
		}
		time.Sleep(patrolInterval)
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
		if stats, err := b.store.Stats(t.Context(), b.at(t, "from", core.Main)); err != nil || stats.Ready != 1 {
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
		time.Sleep(longestYield + 2*longYield) // a gateway that forwards might have the locked one
		if errs := in.closures(); len(errs) != 1 || !errors.Is(errs[0], core.NotAllowed) {
			t.Errorf("the receiver was told %v, want to receive from x", errs)
		}
		if _, err := b.OpenReceiver(t.Context(), root, "from", core.ReceiverOptions{}); !errors.Is(err, core.NotAllowed) {
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
		if len(b.pumps.byKey) != 0 {
			t.Errorf("%d pumps are left", len(b.pumps.byKey))
		}
	})
}

func TestAnEntityForwardsOnlyToAnotherThatTakesMessages(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.createTopic(t, "t")
		b.subscribe(t, "t", "s", nil)
		for want, change := range map[string]func(*core.Settings){
			"ForwardTo is 'new': an entity cannot forward to itself.":                                 forwardTo("new"),
			"ForwardDeadLetteredMessagesTo is 'sb://h/NEW': an entity cannot forward to itself.":      forwardDead("sb://h/NEW"),
			"ForwardTo is 'missing': this namespace has no queue or topic of that name.":              forwardTo("missing"),
			"ForwardTo is 't/Subscriptions/s', which is a subscription: forward to a queue or topic.": forwardTo("t/Subscriptions/s"),
			"ForwardTo is 'q': an entity that requires sessions cannot forward its messages.":         func(s *core.Settings) { s.ForwardTo, s.RequiresSession = "q", true },
		} {
			s := core.DefaultSettings(core.Queue)
			change(&s)
			if _, err := b.CreateQueue(t.Context(), root, "new", s); !errors.Is(err, core.InvalidArgument) || core.TextOf(err) != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		local := core.Identity{{Rights: core.AllRights, Scope: "mine"}}
		s := core.DefaultSettings(core.Queue)
		s.ForwardTo = "q"
		if _, err := b.CreateQueue(t.Context(), local, "mine", s); !errors.Is(err, core.Unauthorized) {
			t.Errorf("without Send on the destination: got %v", err)
		}
		s.AutoDeleteOnIdle = 10 * time.Minute
		ent, err := b.CreateQueue(t.Context(), root, "mine", s)
		if err != nil || ent.Settings.AutoDeleteOnIdle != core.Forever || ent.Settings.ForwardTo != "q" {
			t.Errorf("got %+v, %v, want an entity that is not deleted when idle", ent.Settings, err)
		}
		if _, err := b.UpdateEntity(t.Context(), local, "mine", ent.Settings); err != nil {
			t.Errorf("the manager of the entity leaves the destination alone: got %v", err)
		}
	})
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
		if n := len(b.pumps.byKey); n != 21 {
			t.Errorf("%d pumps, want one for each queue that forwards, and one for the topic with a schedule", n)
		}
		calls := b.store.lockCalls()
		time.Sleep(59 * time.Minute)
		if n := b.store.lockCalls() - calls; n != 0 {
			t.Errorf("idle pumps locked %d times in an hour", n)
		}
		time.Sleep(2*time.Minute + pumpLinger)
		synctest.Wait()
		if n := len(b.pumps.byKey); n != 20 {
			t.Errorf("%d pumps, want none for the topic any more", n)
		}
	})
}

func TestAPumpTakesOverWhatAnotherGatewayLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		sub := b.subscribe(t, "t", "s", nil)
		other := New(b.store.Store, Options{Namespace: "ns"}) // it does not run
		defer other.stop()
		s, err := other.OpenSender(t.Context(), root, "t", nil)
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
