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

// enlistSettle adds settlements to a transaction.
func enlistSettle(t *testing.T, tx core.Transaction, address string, o core.Outcome, ds ...core.Delivery) {
	t.Helper()
	var all []core.Settlement
	for _, d := range ds {
		all = append(all, core.Settlement{Token: d.LockToken, Outcome: o})
	}
	if err := tx.Settle(t.Context(), root, core.At(address), all); err != nil {
		t.Fatalf("settle at %s: %v", address, err)
	}
}

func enlistSend(t *testing.T, tx core.Transaction, address, via string, ms ...*core.Message) {
	t.Helper()
	if err := tx.Send(t.Context(), root, core.At(address), core.At(via), ms); err != nil {
		t.Fatalf("send to %s: %v", address, err)
	}
}

func commit(t *testing.T, tx core.Transaction) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func TestTransactionDoesAllOrNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", numbered(3)...)
		ds := b.receive(t, "q", core.PeekLock, 3).take()
		out := b.receive(t, "q", core.ReceiveAndDelete, 10)

		lost := b.Begin()
		enlistSettle(t, lost, "q", core.Complete, ds[0], ds[1])
		enlistSend(t, lost, "q", "", text("never"))
		settle(t, b, "q", core.Complete, ds[1])
		if err := lost.Commit(t.Context()); !errors.Is(err, core.LockLost) {
			t.Errorf("commit with a lost lock: got %v, want %v", err, core.LockLost)
		}
		if got := bodies(out.take()); got != "" {
			t.Errorf("after a failed commit: got %q", got)
		}

		good := b.Begin()
		enlistSettle(t, good, "q", core.Complete, ds[0])
		enlistSettle(t, good, "q", core.Abandon, ds[2])
		enlistSend(t, good, "q", "", text("x"), text("y"))
		if got := bodies(out.take()); got != "" {
			t.Errorf("before the commit: got %q", got)
		}
		commit(t, good)
		if got := sortedBodies(out.take()); got != "2 x y" {
			t.Errorf("after the commit: got %q, want %q", got, "2 x y")
		}
		if err := good.Commit(t.Context()); !errors.Is(err, core.NotAllowed) {
			t.Errorf("second commit: got %v, want %v", err, core.NotAllowed)
		}
	})
}

// What is sent to other entities goes through the transfer queue where the
// transaction settles, and arrives soon after it has committed.
func TestTransactionReachesOtherEntities(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "in")
		b.create(t, "out")
		b.send(t, "in", text("order"))
		d := b.receive(t, "in", core.PeekLock, 1).take()
		out := b.receive(t, "out", core.ReceiveAndDelete, 10)
		tx := b.Begin()
		enlistSend(t, tx, "out", "", text("direct"))
		enlistSend(t, tx, "out", "in", text("via"))
		enlistSettle(t, tx, "in", core.Complete, d...)
		if got := bodies(out.take()); got != "" {
			t.Errorf("before the commit: got %q", got)
		}
		commit(t, tx)
		time.Sleep(time.Minute)
		if got := sortedBodies(out.take()); got != "direct via" {
			t.Errorf("after the commit: got %q, want %q", got, "direct via")
		}
		_, rt, err := b.Entity(t.Context(), root, "in")
		if err != nil || rt.Active != 0 || rt.Transfer != 0 {
			t.Errorf("source: got %+v, %v, want it empty", rt, err)
		}
	})
}

func TestTransactionPublishes(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		if _, err := b.CreateEntity(t.Context(), root, core.Topic, "news", core.DefaultSettings(core.Topic), nil); err != nil {
			t.Fatal(err)
		}
		sub := core.SubscriptionPath("news", "all")
		if _, err := b.CreateEntity(t.Context(), root, core.Subscription, sub, core.DefaultSettings(core.Subscription), nil); err != nil {
			t.Fatal(err)
		}
		in := b.receive(t, sub, core.PeekLock, 10)
		tx := b.Begin()
		enlistSend(t, tx, "news", "", text("1"))
		enlistSend(t, tx, "news", "", text("2"))
		if got := in.take(); len(got) != 0 {
			t.Errorf("before the commit: got %d messages", len(got))
		}
		commit(t, tx)
		ds := in.take()
		if bodies(ds) != "1 2" {
			t.Fatalf("after the commit: got %q, want %q", bodies(ds), "1 2")
		}
		again := b.Begin()
		enlistSettle(t, again, sub, core.Complete, ds[0])
		enlistSend(t, again, "news", "", text("3"))
		commit(t, again)
		time.Sleep(time.Minute)
		if got := bodies(in.take()); !strings.Contains(got, "3") {
			t.Errorf("sent back to the topic: got %q, want 3 in it", got)
		}
	})
}

func TestTransactionIsTiedToOnePartition(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		b.create(t, "other")
		keyed := func(body, key string) *core.Message {
			m := text(body)
			m.PartitionKey = key
			return m
		}
		keyless := b.Begin()
		if err := keyless.Send(t.Context(), root, core.At("q"), core.Address{}, []*core.Message{text("a")}); !errors.Is(err, core.NotAllowed) {
			t.Errorf("no key: got %v at the send, want %v", err, core.NotAllowed)
		}
		refused := func(what string, first, second *core.Message) {
			tx := b.Begin()
			enlistSend(t, tx, "q", "", first)
			if err := tx.Send(t.Context(), root, core.At("q"), core.Address{}, []*core.Message{second}); !errors.Is(err, core.NotAllowed) {
				t.Errorf("%s: got %v at the second, want %v", what, err, core.NotAllowed)
			}
		}
		refused("two keys", keyed("a", "k1"), keyed("b", "k2"))
		refused("a key and none", keyed("a", "k1"), text("b"))

		tx := b.Begin()
		enlistSend(t, tx, "q", "", keyed("a", "k"), keyed("b", "k"))
		commit(t, tx)
		in := b.receive(t, "q", core.PeekLock, 10)
		ds := in.take()
		if bodies(ds) != "a b" {
			t.Errorf("one key: got %q, want %q", bodies(ds), "a b")
		}

		b.send(t, "q", numbered(8)...)
		spread := in.take()
		all := make([]core.Settlement, len(spread))
		for i := range spread {
			all[i].Token = spread[i].LockToken
		}
		if err := b.Begin().Settle(t.Context(), root, core.At("q"), all); !errors.Is(err, core.NotAllowed) {
			t.Errorf("settle in several partitions: got %v, want %v", err, core.NotAllowed)
		}
		b.send(t, "other", text("c"))
		tx = b.Begin()
		enlistSettle(t, tx, "q", core.Complete, ds[0])
		c := b.receive(t, "other", core.PeekLock, 1).take()
		err := tx.Settle(t.Context(), root, core.At("other"), []core.Settlement{{Token: c[0].LockToken}})
		if !errors.Is(err, core.NotAllowed) {
			t.Errorf("settle at two entities: got %v, want %v", err, core.NotAllowed)
		}
		commit(t, tx) // the refusal left the rest as it was
	})
}

// What the store would refuse at the commit is refused when it is added, and the rest can be committed.
func TestTransactionRefusesLostItemsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.create(t, "p", partitioned)
		b.send(t, "q", text("a"), text("b"))
		ds := b.receive(t, "q", core.PeekLock, 2).take()
		if err := b.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: ds[0].LockToken}})[0]; err != nil {
			t.Fatal(err)
		}
		tx := b.Begin()
		settle := func(d core.Delivery) error {
			return tx.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: d.LockToken}})
		}
		if err := settle(ds[0]); !errors.Is(err, core.LockLost) {
			t.Errorf("settled before: got %v, want %v", err, core.LockLost)
		}
		if err := settle(ds[1]); err != nil {
			t.Errorf("locked: %v", err)
		}
		if err := settle(ds[1]); !errors.Is(err, core.LockLost) {
			t.Errorf("settled in the same transaction: got %v, want %v", err, core.LockLost)
		}
		if err := tx.Cancel(t.Context(), root, core.At("q"), []int64{77}); !errors.Is(err, core.MessageNotFound) || !strings.Contains(core.TextOf(err), ": 77 does not exist, or is not scheduled.") {
			t.Errorf("cancel what is not there: got %v, want %v", err, core.MessageNotFound)
		}
		commit(t, tx)

		keyed := text("x")
		keyed.PartitionKey = "k"
		b.send(t, "p", keyed)
		d := b.receive(t, "p", core.PeekLock, 1).take()[0]
		tx = b.Begin()
		enlistSettle(t, tx, "p", core.Complete, d)
		for i := range 32 { // some key lies in another partition
			m := text("y")
			m.PartitionKey = fmt.Sprint(i)
			err := tx.Send(t.Context(), root, core.At("p"), core.Address{}, []*core.Message{m})
			if errors.Is(err, core.NotAllowed) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		t.Error("a key of another partition than the settled message's: got nil")
	})
}

func TestTransactionSchedulesUnderNumbersOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.create(t, "p", partitioned)
		b.createTopic(t, "topic")
		b.subscribe(t, "topic", "s", nil)
		at := func(body string) []*core.Message {
			m := text(body)
			m.ScheduledEnqueueTime, m.PartitionKey = time.Now().Add(time.Hour), "k"
			return []*core.Message{m}
		}
		for _, entity := range []string{"q", "p", "topic"} {
			gone, kept := b.Begin(), b.Begin()
			schedule := func(tx core.Transaction, body string) int64 {
				numbers, err := tx.Schedule(t.Context(), root, core.At(entity), at(body))
				if err != nil || len(numbers) != 1 {
					t.Fatalf("%s: schedule: got %v, %v", entity, numbers, err)
				}
				return numbers[0]
			}
			lost := schedule(gone, "rolled back")
			first, second := schedule(kept, "committed"), schedule(kept, "cancelled")
			third := schedule(kept, "cancelled in the transaction")
			if err := kept.Cancel(t.Context(), root, core.At(entity), []int64{third}); err != nil {
				t.Errorf("%s: cancel in the transaction: %v", entity, err)
			}
			if ds, err := b.Peek(t.Context(), root, core.At(entity), nil, 0, 10); err != nil || len(ds) != 0 {
				t.Errorf("%s: before the commit: %d messages are seen, %v", entity, len(ds), err)
			}
			gone.Rollback(t.Context())
			commit(t, kept)
			if err := b.Cancel(t.Context(), root, core.At(entity), []int64{lost}); !errors.Is(err, core.MessageNotFound) {
				t.Errorf("%s: cancel what was rolled back: got %v", entity, err)
			}
			ds, err := b.Peek(t.Context(), root, core.At(entity), nil, 0, 10)
			if err != nil || bodies(ds) != "committed cancelled" || ds[0].SequenceNumber != first || ds[1].SequenceNumber != second {
				t.Errorf("%s: after the commit: %q, %v", entity, bodies(ds), err)
			}
			if err := b.Cancel(t.Context(), root, core.At(entity), []int64{second}); err != nil {
				t.Errorf("%s: cancel by the number of the transaction: %v", entity, err)
			}
		}
		if _, err := b.Begin().Schedule(t.Context(), root, core.At("p"), []*core.Message{text("no key")}); !errors.Is(err, core.NotAllowed) {
			t.Errorf("schedule without a key in a partitioned queue: got %v, want %v", err, core.NotAllowed)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		for address, want := range map[string]string{"q": "committed", "p": "committed", "topic/Subscriptions/s": "committed"} {
			if got := bodies(b.receive(t, address, core.ReceiveAndDelete, 10).take()); got != want {
				t.Errorf("%s: got %q, want %q", address, got, want)
			}
		}
	})
}

// A transaction that ends in no way leaves nothing behind for long.
func TestTransactionThatIsForgottenSchedulesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		m := text("lost")
		m.ScheduledEnqueueTime = time.Now().Add(time.Minute)
		tx := b.Begin()
		if _, err := tx.Schedule(t.Context(), root, core.At("q"), []*core.Message{m}); err != nil {
			t.Fatal(err)
		}
		in := b.receive(t, "q", core.ReceiveAndDelete, 10)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := bodies(in.take()); got != "" {
			t.Errorf("got %q, want nothing", got)
		}
		if err := tx.Commit(t.Context()); !errors.Is(err, core.MessageNotFound) {
			t.Errorf("commit after an hour: got %v, want %v", err, core.MessageNotFound)
		}
	})
}

func TestTransactionSetsTheStateOfASession(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", func(s *core.Settings) { s.RequiresSession = true })
		m := text("a")
		m.SessionID = "x"
		b.send(t, "q", m)
		var got []core.Delivery
		s, err := b.AcceptSession(t.Context(), root, core.At("q"), core.SessionOptions{ID: "x", ReceiverOptions: core.ReceiverOptions{
			Mode: core.PeekLock, Deliver: func(ds []core.Delivery) { got = append(got, ds...) },
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.AddCredit(1, core.AnyMessage)
		synctest.Wait()
		if len(got) != 1 {
			t.Fatalf("got %d messages, want 1", len(got))
		}
		state := func() string {
			got, err := s.State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return string(got)
		}
		tx := b.Begin()
		enlistSettle(t, tx, "q", core.Complete, got[0])
		if err := tx.SetSessionState(t.Context(), root, core.At("q"), s.Lock(), []byte("done")); err != nil {
			t.Fatal(err)
		}
		if state() != "" {
			t.Errorf("before the commit: state %q", state())
		}
		commit(t, tx)
		if state() != "done" {
			t.Errorf("after the commit: state %q, want %q", state(), "done")
		}
		tx = b.Begin()
		stranger := s.Lock()
		stranger.Nonce++
		if err := tx.SetSessionState(t.Context(), root, core.At("q"), stranger, nil); !errors.Is(err, core.SessionLockLost) {
			t.Errorf("without the lock: got %v, want %v", err, core.SessionLockLost)
		}
		stranger = s.Lock()
		stranger.Index = 7
		if err := tx.SetSessionState(t.Context(), root, core.At("q"), stranger, nil); !errors.Is(err, core.SessionLockLost) {
			t.Errorf("in a partition that is not there: got %v, want %v", err, core.SessionLockLost)
		}
		if err := tx.SetSessionState(t.Context(), root, core.At("q"), s.Lock(), make([]byte, 300<<10)); !errors.Is(err, core.TooLarge) {
			t.Errorf("too large: got %v, want %v", err, core.TooLarge)
		}
	})
}

func TestTransactionKnowsItsLimits(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		var before []core.Delivery
		for range core.MaxTransactionSettlements {
			b.send(t, "q", text("before"))
		}
		in := b.receive(t, "q", core.PeekLock, core.MaxTransactionSettlements)
		for synctest.Wait(); len(before) < core.MaxTransactionSettlements; synctest.Wait() {
			before = append(before, in.take()...)
		}
		extra := b.send(t, "q", text("extra"))
		tx := b.Begin()
		scheduled := text("scheduled")
		scheduled.ScheduledEnqueueTime = time.Now().Add(time.Hour)
		if _, err := tx.Schedule(t.Context(), root, core.At("q"), each(scheduled)[0]); err != nil {
			t.Fatal(err)
		}
		for i := range core.MaxTransactionMessages - 1 {
			enlistSend(t, tx, "q", "", text(fmt.Sprint(i)))
		}
		err := tx.Send(t.Context(), root, core.At("q"), core.Address{}, each(text("over"))[0])
		if want := "Cannot send more than 100 messages in a single transaction."; !errors.Is(err, core.QuotaExceeded) || core.TextOf(err) != want {
			t.Errorf("one more: got %v, want %q", err, want)
		}
		if _, err := tx.Schedule(t.Context(), root, core.At("q"), each(scheduled)[0]); !errors.Is(err, core.QuotaExceeded) {
			t.Errorf("one more, scheduled: got %v, want %v", err, core.QuotaExceeded)
		}
		enlistSettle(t, tx, "q", core.Complete, before...) // which do not count as messages
		over := b.receive(t, "q", core.PeekLock, 1).take()[0]
		if over.SequenceNumber != extra[0] {
			t.Fatalf("got %d, want %d", over.SequenceNumber, extra[0])
		}
		if err := tx.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: over.LockToken}}); !errors.Is(err, core.QuotaExceeded) {
			t.Errorf("one settlement more: got %v, want %v", err, core.QuotaExceeded)
		}
		commit(t, tx)
		if got := len(b.receive(t, "q", core.PeekLock, 200).take()); got != core.MaxTransactionMessages-1 {
			t.Errorf("got %d messages, want %d", got, core.MaxTransactionMessages-1)
		}
		for what, err := range map[string]error{
			"missing entity":   b.Begin().Send(t.Context(), root, core.At("missing"), core.Address{}, each(text("x"))[0]),
			"missing via":      b.Begin().Send(t.Context(), root, core.At("q"), core.At("missing"), each(text("x"))[0]),
			"settle elsewhere": b.Begin().Settle(t.Context(), root, core.At("missing"), []core.Settlement{{}}),
		} {
			if !errors.Is(err, core.NotFound) {
				t.Errorf("%s: got %v, want %v", what, err, core.NotFound)
			}
		}
		if err := b.Begin().Send(t.Context(), core.Identity{{Rights: core.Listen}}, core.At("q"), core.Address{}, each(text("x"))[0]); !errors.Is(err, core.Unauthorized) {
			t.Errorf("without Send: got %v, want %v", err, core.Unauthorized)
		}
		commit(t, b.Begin()) // of nothing
	})
}

func TestTransactionCancelsAndSchedules(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		later := text("later")
		later.ScheduledEnqueueTime = time.Now().Add(time.Hour)
		n := b.send(t, "q", later)
		in := b.receive(t, "q", core.ReceiveAndDelete, 10)
		tx := b.Begin()
		if err := tx.Cancel(t.Context(), root, core.At("q"), n); err != nil {
			t.Fatal(err)
		}
		sooner := text("sooner")
		sooner.ScheduledEnqueueTime = time.Now().Add(time.Minute)
		enlistSend(t, tx, "q", "", sooner)
		commit(t, tx)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if got := bodies(in.take()); got != "sooner" {
			t.Errorf("got %q, want %q", got, "sooner")
		}
	})
}

func TestStatesOfSessionsCannotGrowInAFullEntity(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		small := func(s *core.Settings) { s.MaxSizeInMegabytes, s.MaxMessageSizeInKilobytes = 1, 1024 }
		b.create(t, "q", small, sessionful)
		b.createTopic(t, "t", small)
		subscription := b.subscribe(t, "t", "s", nil, sessionful)
		half := text(strings.Repeat("x", 600<<10))
		half.SessionID = "of messages"
		for address, to := range map[string]string{"q": "q", subscription: "t"} {
			s := b.mustAccept(t, address, "another")
			if err := s.SetState(t.Context(), []byte("state")); err != nil {
				t.Fatal(err)
			}
			b.send(t, to, half)
			b.send(t, to, half)
			if err := s.SetState(t.Context(), []byte("larger")); !errors.Is(err, core.QuotaExceeded) {
				t.Errorf("%s, a larger state: got %v", address, err)
			}
			tx := b.Begin()
			if err := tx.SetSessionState(t.Context(), root, core.At(address), s.Lock(), []byte("larger")); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(t.Context()); !errors.Is(err, core.QuotaExceeded) {
				t.Errorf("%s, a larger state in a transaction: got %v", address, err)
			}
			if err := s.SetState(t.Context(), []byte("STATE")); err != nil {
				t.Errorf("%s, another state: got %v", address, err)
			}
		}
	})
}

func TestPropertiesOfMessagesCannotGrowInAFullEntity(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		small := func(s *core.Settings) { s.MaxSizeInMegabytes, s.MaxMessageSizeInKilobytes = 1, 1024 }
		b.create(t, "q", small)
		b.createTopic(t, "t", small)
		subscription := b.subscribe(t, "t", "s", nil)
		half := text(strings.Repeat("x", 600<<10))
		for address, to := range map[string]string{"q": "q", subscription: "t"} {
			b.send(t, to, half)
			b.send(t, to, half)
			d := b.receive(t, address, core.PeekLock, 1).take()[0]
			if err := b.abandonWith(t, address, asked(t, "x", "1"), d); !errors.Is(err, core.QuotaExceeded) {
				t.Errorf("%s, a property: got %v", address, err)
			}
			tx := b.Begin()
			deferral := core.Settlement{Token: d.LockToken, Outcome: core.Defer, Properties: asked(t, "x", "1")}
			if err := tx.Settle(t.Context(), root, core.At(address), []core.Settlement{deferral}); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(t.Context()); !errors.Is(err, core.QuotaExceeded) {
				t.Errorf("%s, a property in a transaction: got %v", address, err)
			}
			dying := core.Settlement{Token: d.LockToken, Outcome: core.DeadLetterOutcome, Properties: core.ReasonProperties("broken", "is broken")}
			if err := b.Settle(t.Context(), root, core.At(address), []core.Settlement{dying})[0]; err != nil {
				t.Errorf("%s, a dead letter with a reason: got %v", address, err)
			}
			dead := address + "/$DeadLetterQueue"
			if err := b.abandonWith(t, dead, asked(t, "x", "1"), b.receive(t, dead, core.PeekLock, 1).take()[0]); !errors.Is(err, core.QuotaExceeded) {
				t.Errorf("%s, a property of a dead letter: got %v", address, err)
			}
		}
	})
}

// A transaction that receives from a subscription, or from dead letters, cannot send without end where the entity is full.
func TestATransactionInAFullEntitySendsNoMoreThanItCompletes(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		small := func(s *core.Settings) { s.MaxSizeInMegabytes, s.MaxMessageSizeInKilobytes = 1, 1024 }
		full := strings.Repeat("x", 1<<20)
		b.create(t, "to")
		b.create(t, "q", small)
		b.createTopic(t, "t", small)
		subscription := b.subscribe(t, "t", "s", nil)
		b.send(t, "q", text(full))
		b.send(t, "t", text(full))
		settle(t, b, "q", core.DeadLetterOutcome, b.receive(t, "q", core.PeekLock, 1).take()...)
		for _, from := range []string{"q/$DeadLetterQueue", subscription} {
			d := b.receive(t, from, core.PeekLock, 1).take()[0]
			tx := b.Begin()
			enlistSettle(t, tx, from, core.Release, d)
			enlistSend(t, tx, "to", "", text("more"))
			if err := tx.Commit(t.Context()); !errors.Is(err, core.QuotaExceeded) {
				t.Errorf("%s, more than it completes: got %v", from, err)
			}
			tx = b.Begin()
			enlistSettle(t, tx, from, core.Complete, d)
			enlistSend(t, tx, "to", "", text("as many"))
			commit(t, tx)
		}
	})
}

func TestTransactionNamesTheQueuesThatItCannotSpan(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", numbered(2)...)
		ds := b.receive(t, "q", core.PeekLock, 2).take()
		settle(t, b, "q", core.DeadLetterOutcome, ds[1])
		dead := b.receive(t, "q/$DeadLetterQueue", core.PeekLock, 1).take()
		tx := b.Begin()
		enlistSettle(t, tx, "q", core.Complete, ds[0])
		err := tx.Settle(t.Context(), root, core.At("q/$DeadLetterQueue"), []core.Settlement{{Token: dead[0].LockToken}})
		if want := "it is bound to 'q', not 'q/$DeadLetterQueue'."; !strings.HasSuffix(core.TextOf(err), want) {
			t.Errorf("got %v, want …%s", err, want)
		}
	})
}
