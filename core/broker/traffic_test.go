package broker

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// traffic returns what is told of an entity.
func (b *started) traffic(t *testing.T, name string) Traffic {
	t.Helper()
	synctest.Wait()
	for _, told := range b.Traffic() {
		if told.Entity == name {
			return told
		}
	}
	t.Fatalf("nothing is told of %s", name)
	return Traffic{}
}

func TestTrafficCountsWhatBecameOfMessages(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "Orders", func(s *core.Settings) { s.RequiresDuplicateDetection = true })
		twin := text("twin")
		twin.MessageID = core.StringID("twin")
		again := *twin
		b.send(t, "orders", append(numbered(5), twin, &again)...)
		late := text("late")
		late.ScheduledEnqueueTime = time.Now().Add(time.Hour)
		scheduled := b.send(t, "orders", late)
		if err := b.Cancel(t.Context(), root, core.At("orders"), scheduled); err != nil {
			t.Fatal(err)
		}

		in := b.receive(t, "orders", core.PeekLock, 10)
		ds := in.take()
		settle(t, b, "orders", core.Complete, ds[:2]...)
		settle(t, b, "orders", core.DeadLetterOutcome, ds[2])
		settle(t, b, "orders", core.Defer, ds[3])
		settle(t, b, "orders", core.Abandon, ds[4])
		b.Settle(t.Context(), root, core.At("orders"), []core.Settlement{{Token: ds[0].LockToken}}) // too late
		in.take()
		if _, err := b.ReceiveDeferred(t.Context(), root, core.At("orders"), []int64{ds[3].SequenceNumber}, core.ReceiveAndDelete); err != nil {
			t.Fatal(err)
		}
		graves := b.receive(t, "orders/$DeadLetterQueue", core.ReceiveAndDelete, 10)
		graves.take()

		want := Traffic{Entity: "Orders", Accepted: 7, Absorbed: 1, Cancelled: 1}
		want.Queues[core.Main] = QueueTraffic{
			Delivered: 8, LocksLost: 1, Receivers: 1, Credit: 3,
			Settled: [...]int64{core.Complete: 3, core.Abandon: 1, core.Defer: 1, core.DeadLetterOutcome: 1, core.Release: 0},
		}
		want.Queues[core.DeadLetter] = QueueTraffic{Delivered: 1, Receivers: 1, Credit: 9, Settled: [...]int64{core.Complete: 1, core.Release: 0}}
		if got := b.traffic(t, "Orders"); got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestTrafficCountsSessionsAndThoseWhoWait(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		m := text("m")
		m.SessionID = "a"
		b.send(t, "q", m)
		h := b.mustAccept(t, "q", "a")
		h.AddCredit(5, core.AnyMessage)
		var waiting sync.WaitGroup
		waiting.Go(func() { _, _ = b.accept(t.Context(), "q", "", core.PeekLock) })
		told := b.traffic(t, "q")
		if told.Sessions != 1 || told.Waiting != 1 || told.Queues[core.Main].Delivered != 1 {
			t.Errorf("got %+v", told)
		}
		h.Close()
		waiting.Wait()
	})
}

func TestTrafficOfTransactionsAndPumps(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "end")
		b.create(t, "start", func(s *core.Settings) { s.ForwardTo = "end" })
		b.create(t, "q")
		b.send(t, "start", numbered(3)...)
		b.send(t, "q", text("old"))
		in := b.receive(t, "q", core.PeekLock, 1)
		ds := in.take()
		tx := b.Begin()
		if err := tx.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: ds[0].LockToken}}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Send(t.Context(), root, core.At("q"), core.Address{}, []*core.Message{text("new")}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := b.traffic(t, "q"); got.Accepted != 2 || got.Queues[core.Main].Settled[core.Complete] != 1 {
			t.Errorf("q: got %+v", got)
		}
		if got := b.traffic(t, "start"); got.Accepted != 3 || got.Queues[core.Main].Moved != 3 {
			t.Errorf("start: got %+v", got)
		}
		if got := b.traffic(t, "end"); got.Accepted != 3 {
			t.Errorf("end: got %+v", got)
		}
	})
}

// Two gateways on one store: what was accepted was taken out or is still there,
// to the message.
func TestTrafficBalancesWithWhatIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned, func(s *core.Settings) { s.MaxDeliveryCount = 2 })
		other := b.another(t)
		brokers := []*Broker{b.Broker, other}
		var work sync.WaitGroup
		for i := range 6 {
			random := rand.New(rand.NewPCG(uint64(i), 7))
			from, one, two := brokers[i%2], random.Uint64(), random.Uint64()
			work.Go(func() { soakSend(t, from, random) })
			work.Go(func() { soakReceive(t, from, one, "q") })
			work.Go(func() { soakReceive(t, from, two, "q/$DeadLetterQueue") })
		}
		work.Wait()
		time.Sleep(core.MaxLockDuration)

		var in, out int64
		for _, from := range brokers {
			for _, told := range from.Traffic() {
				in += told.Accepted
				out += told.Cancelled
				for _, o := range told.Queues {
					out += o.Settled[core.Complete] + o.Moved
				}
			}
		}
		h, err := b.Holding(t.Context(), "Q")
		if err != nil {
			t.Fatal(err)
		}
		var left int64
		for _, s := range h.Counts {
			left += s.Ready + s.Locked + s.Deferred + s.Scheduled
		}
		if in != out+left || out == 0 || left == 0 {
			t.Errorf("in %d, out %d, left %d", in, out, left)
		}
	})
}

func soakSend(t *testing.T, b *Broker, random *rand.Rand) {
	s, err := b.OpenSender(t.Context(), root, core.At("q"), nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	for range 60 {
		ms := numbered(1 + random.IntN(10))
		for _, m := range ms {
			if random.IntN(8) == 0 {
				m.ScheduledEnqueueTime = time.Now().Add(time.Duration(random.IntN(400)) * time.Second)
			}
		}
		answers := s.Send(t.Context(), each(ms...))
		if random.IntN(3) == 0 { // which is refused where the message is not scheduled
			_ = b.Cancel(t.Context(), root, core.At("q"), answers[0].Numbers)
		}
		time.Sleep(time.Second)
	}
}

func soakReceive(t *testing.T, b *Broker, seed uint64, address string) {
	random := rand.New(rand.NewPCG(seed, 1))
	for range 20 {
		mode := core.ReceiveMode(random.IntN(2))
		r, err := b.OpenReceiver(t.Context(), root, core.At(address), core.ReceiverOptions{Mode: mode, Deliver: func(ds []core.Delivery) {
			var all []core.Settlement
			for _, d := range ds {
				if mode == core.PeekLock && random.IntN(5) > 0 { // else its lock expires
					all = append(all, core.Settlement{Token: d.LockToken, Outcome: core.Outcome(random.IntN(5))})
				}
			}
			b.Settle(t.Context(), root, core.At(address), all) // dead letters refuse to be dead-lettered
		}})
		if err != nil {
			t.Error(err)
			return
		}
		r.AddCredit(1+random.IntN(15), core.AnyMessage)
		time.Sleep(2 * time.Second)
		drained := make(chan struct{})
		r.Drain(func(int) { close(drained) })
		<-drained
		r.Close()
	}
}

func TestHoldingsCountMessagesAndTheirAge(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "a", partitioned)
		b.create(t, "b")
		b.createTopic(t, "t")
		sub := b.subscribe(t, "t", "s", nil)
		late := text("late")
		late.ScheduledEnqueueTime = time.Now().Add(time.Hour)
		b.send(t, "a", late)
		time.Sleep(time.Minute)
		first := time.Now()
		b.send(t, "a", numbered(3)...)
		b.send(t, "t", numbered(2)...)
		time.Sleep(time.Minute)
		b.send(t, "a", numbered(3)...)
		var asked []string
		all, err := b.Holdings(t.Context(), func(name string, _ core.Kind) bool {
			asked = append(asked, name)
			return name != "b"
		})
		if err != nil || len(asked) != 4 || len(all) != 3 {
			t.Fatalf("asked for %v, got %+v, %v", asked, all, err)
		}
		byName := map[string]Holding{}
		for _, h := range all {
			byName[h.Entity] = h
		}
		a := byName["a"]
		if a.Counts[core.Main].Ready != 6 || a.Counts[core.Main].Scheduled != 1 || !a.Oldest.Equal(first) {
			t.Errorf("a: got %+v, want the oldest of %v", a, first)
		}
		if s := byName[sub]; s.Kind != core.Subscription || s.Counts[core.Main].Ready != 2 || s.Counts[core.Main].Enqueued != 2 {
			t.Errorf("%s: got %+v", sub, s)
		}
		if _, err := b.CountSessions(t.Context(), "a", 10); core.CodeOf(err) != core.NotAllowed {
			t.Errorf("sessions of a: got %v", err)
		}
		b.create(t, "sessions", partitioned, sessionful)
		for i := range 2*sessionPage + 1 {
			m := text("m")
			m.SessionID = strconv.Itoa(i)
			b.send(t, "sessions", m)
		}
		for most, want := range map[int]int{100: 100, 10_000: 2*sessionPage + 1} {
			if got, err := b.CountSessions(t.Context(), "sessions", most); got != want || err != nil {
				t.Errorf("sessions: got %d, %v, want %d", got, err, want)
			}
		}
		if _, err := b.Holding(t.Context(), "none"); core.CodeOf(err) != core.NotFound {
			t.Errorf("none: got %v", err)
		}
	})
}
