package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/delivery"
)

func sessionful(s *core.Settings) { s.RequiresSession = true }

// of is messages of one session, with bodies "id/first", "id/first+1", …
func of(id string, first, n int) []*core.Message {
	ms := make([]*core.Message, n)
	for i := range ms {
		ms[i] = text(fmt.Sprintf("%s/%d", id, first+i))
		ms[i].SessionID = id
	}
	return ms
}

// holder is an inbox that receives from a session.
type holder struct {
	*inbox
	core.Session
}

func (h *holder) drain() { h.inbox.drain() }

// accept accepts the session of that id, or for "" the next, waiting for a minute.
func (b *started) accept(ctx context.Context, address, id string, mode core.ReceiveMode) (*holder, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	in := &inbox{}
	s, err := b.AcceptSession(ctx, root, core.At(address), core.SessionOptions{
		ID: id, Next: id == "",
		ReceiverOptions: core.ReceiverOptions{
			Mode:    mode,
			Deliver: in.deliver,
			Closed: func(err error) {
				in.mu.Lock()
				defer in.mu.Unlock()
				in.closed = append(in.closed, err)
			},
		},
	})
	if err != nil {
		return nil, err
	}
	in.Receiver = s
	return &holder{in, s}, nil
}

func (b *started) mustAccept(t *testing.T, address, id string) *holder {
	t.Helper()
	h, err := b.accept(t.Context(), address, id, core.PeekLock)
	if err != nil {
		t.Fatalf("accept %q: %v", id, err)
	}
	return h
}

func (h *holder) AddCredit(n int, bytes int64) { h.Session.AddCredit(n, bytes) }
func (h *holder) Close()                       { h.Session.Close() }

func TestSessionGetsItsMessagesInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful, partitioned)
		for i := range 3 {
			b.send(t, "q", append(of("a", 2*i, 2), of("b", i, 1)...)...)
		}
		h := b.mustAccept(t, "q", "a")
		if h.ID() != "a" || !h.LockedUntil().Equal(b.store.Now().Add(time.Minute)) {
			t.Errorf("got session %q until %v", h.ID(), h.LockedUntil())
		}
		if got := h.take(); len(got) > 0 {
			t.Fatalf("without credit: got %s", bodies(got))
		}
		h.AddCredit(4, core.AnyMessage)
		first := h.take()
		if got, want := bodies(first), "a/0 a/1 a/2 a/3"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		if d := first[0]; d.LockToken.IsZero() || !d.LockedUntil.Equal(h.LockedUntil()) {
			t.Errorf("got lock %v until %v, want the session's end %v", d.LockToken, d.LockedUntil, h.LockedUntil())
		}
		settle(t, b, "q", core.Complete, first[1:]...)
		settle(t, b, "q", core.Abandon, first[0])
		h.AddCredit(3, core.AnyMessage)
		if got, want := bodies(h.take()), "a/0 a/4 a/5"; got != want {
			t.Errorf("after an abandon: got %s, want %s", got, want)
		}
		b.send(t, "q", of("a", 6, 2)...) // the doorbell, for one that has credit left
		h.AddCredit(2, core.AnyMessage)
		if got, want := bodies(h.take()), "a/6 a/7"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		h.AddCredit(1, core.AnyMessage)
		synctest.Wait()
		b.send(t, "q", of("b", 3, 1)...)
		b.send(t, "q", of("a", 8, 1)...)
		if got, want := bodies(h.take()), "a/8"; got != want {
			t.Errorf("by the doorbell: got %s, want %s", got, want)
		}
	})
}

// A session that is closed while settlements are in flight stays locked until they are carried out,
// or until the broker gives up on them.
func TestClosedSessionWaitsForItsSettlements(t *testing.T) {
	for name, answered := range map[string]bool{"carried out": true, "no answer": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *started) {
				b.create(t, "q", sessionful)
				b.send(t, "q", of("a", 0, 2)...)
				h := b.mustAccept(t, "q", "a")
				h.AddCredit(1, core.AnyMessage)
				got := h.take()
				settled := make(chan struct{})
				h.CloseAfter(settled)
				begin, want := time.Now(), delivery.SettleTimeout
				if answered {
					want = time.Second
					time.AfterFunc(want, func() {
						settle(t, b, "q", core.Complete, got...)
						close(settled)
					})
				}
				next := b.mustAccept(t, "q", "a")
				if waited := time.Since(begin); waited != want {
					t.Errorf("the next holder got the session after %v, want %v", waited, want)
				}
				next.AddCredit(1, core.AnyMessage)
				body := "a/0"
				if answered {
					body = "a/1"
				}
				if got := bodies(next.take()); got != body {
					t.Errorf("got %s, want %s", got, body)
				}
			})
		})
	}
}

func TestSessionIsExclusive(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		b.send(t, "q", of("a", 0, 3)...)
		h := b.mustAccept(t, "q", "a")
		_, err := b.accept(t.Context(), "q", "a", core.PeekLock)
		if want := "The requested session 'a' cannot be accepted."; !errors.Is(err, core.SessionLocked) || !strings.Contains(core.TextOf(err), want) {
			t.Errorf("a second holder: got %v, want %s", err, want)
		}
		h.AddCredit(2, core.AnyMessage)
		first := h.take()
		h.Close()
		next := b.mustAccept(t, "q", "a") // at once
		next.AddCredit(10, core.AnyMessage)
		got := next.take()
		if got, want := bodies(got), "a/0 a/1 a/2"; got != want {
			t.Errorf("after a close: got %s, want %s", got, want)
		}
		for i, d := range got {
			if d.DeliveryCount != 0 {
				t.Errorf("message %d: got %d failed deliveries, want none", i, d.DeliveryCount)
			}
		}
		if err := b.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: first[0].LockToken}})[0]; !errors.Is(err, core.SessionLockLost) {
			t.Errorf("settle with the lock of the former holder: got %v, want %v", err, core.SessionLockLost)
		}
		if err := next.SetState(t.Context(), nil); err != nil {
			t.Errorf("the session is gone after that: %v", err)
		}
		if _, err := h.Renew(t.Context()); !errors.Is(err, core.SessionLockLost) {
			t.Errorf("renew after close: got %v, want %v", err, core.SessionLockLost)
		}
		if got := h.closures(); len(got) > 0 {
			t.Errorf("its holder closed it and was told: %v", got)
		}
	})
}

func TestSessionLockExpiresUnlessRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		b.send(t, "q", of("a", 0, 1)...)
		h := b.mustAccept(t, "q", "a")
		h.AddCredit(5, core.AnyMessage)
		if got := h.take(); len(got) != 1 {
			t.Fatalf("got %d messages", len(got))
		}
		for range 6 { // beyond five minutes
			time.Sleep(50 * time.Second)
			until, err := h.Renew(t.Context())
			if err != nil || !until.Equal(b.store.Now().Add(time.Minute)) || !until.Equal(h.LockedUntil()) {
				t.Fatalf("renew: got %v, %v", until, err)
			}
		}
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		if got := h.closures(); len(got) > 0 {
			t.Fatalf("closed too early: %v", got)
		}
		time.Sleep(time.Millisecond + core.SessionGrace)
		synctest.Wait()
		if got := h.closures(); len(got) != 1 || !errors.Is(got[0], core.SessionLockLost) {
			t.Fatalf("closed with %v, want %v", got, core.SessionLockLost)
		}
		if _, err := h.State(t.Context()); !errors.Is(err, core.SessionLockLost) {
			t.Errorf("state: got %v, want %v", err, core.SessionLockLost)
		}
		next := b.mustAccept(t, "q", "")
		next.AddCredit(1, core.AnyMessage)
		if got := next.take(); bodies(got) != "a/0" || got[0].DeliveryCount != 1 {
			t.Errorf("after expiry: got %v", got)
		}
		h.Close() // says nothing of the new holder's lock
		if _, err := next.Renew(t.Context()); err != nil {
			t.Errorf("renew by the new holder: %v", err)
		}
	})
}

func TestSessionIsLostWhenTheStoreSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		ent := b.create(t, "q", sessionful)
		h := b.mustAccept(t, "q", "a")
		s := h.Session
		if err := ent.Partition(0, core.Main).In(b.store.Store).ReleaseSession(t.Context(), s.Lock()); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Renew(t.Context()); !errors.Is(err, core.SessionLockLost) {
			t.Errorf("renew: got %v, want %v", err, core.SessionLockLost)
		}
		synctest.Wait()
		if got := h.closures(); len(got) != 1 || !errors.Is(got[0], core.SessionLockLost) {
			t.Errorf("closed with %v, want %v", got, core.SessionLockLost)
		}
	})
}

func TestNextSession(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful, partitioned)
		began := time.Now()
		_, err := b.accept(t.Context(), "q", "", core.PeekLock)
		if !errors.Is(err, core.Timeout) || !strings.Contains(core.TextOf(err), "did not complete within the allotted timeout") || time.Since(began) != time.Minute {
			t.Errorf("no session: got %v after %v", err, time.Since(began))
		}
		b.send(t, "q", append(of("a", 0, 1), of("b", 0, 1)...)...)
		got := []string{b.mustAccept(t, "q", "").ID(), b.mustAccept(t, "q", "").ID()}
		slices.Sort(got)
		if want := []string{"a", "b"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// Many wait; each gets one session as soon as there is one, in the order of
// their coming, and the store is not asked by all of them at once.
func TestManyWaitForNextSessions(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		const waiters = 300
		b.create(t, "q", sessionful, partitioned)
		var mu sync.Mutex
		var order []int
		ids := map[string]int{}
		var wg sync.WaitGroup
		for i := range waiters {
			wg.Go(func() {
				h, err := b.accept(t.Context(), "q", "", core.PeekLock)
				if err != nil {
					t.Errorf("waiter %d: %v", i, err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
				ids[h.ID()]++
			})
			synctest.Wait()
		}
		before := b.store.acceptCalls()
		for i := range waiters {
			b.send(t, "q", of(fmt.Sprint("s", i), 0, 1)...)
			synctest.Wait()
		}
		wg.Wait()
		if !slices.IsSorted(order) {
			t.Errorf("they were served as %v", order)
		}
		if len(ids) != waiters {
			t.Errorf("got %d sessions, want %d", len(ids), waiters)
		}
		if got := b.store.acceptCalls() - before; got > 3*waiters {
			t.Errorf("the store was asked %d times for %d sessions", got, waiters)
		}
	})
}

func TestNextSessionComesFreeByItself(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, b *started)
		after   time.Duration
	}{
		"a schedule is due": {func(t *testing.T, b *started) {
			m := of("a", 0, 1)
			m[0].ScheduledEnqueueTime = b.store.Now().Add(20 * time.Second)
			b.send(t, "q", m...)
		}, 20 * time.Second},
		"a lock expires": {func(t *testing.T, b *started) {
			b.send(t, "q", of("a", 0, 1)...)
			b.mustAccept(t, "q", "a")
			time.Sleep(30 * time.Second)
		}, 30*time.Second + core.SessionGrace},
		"its holder closes it": {func(t *testing.T, b *started) {
			b.send(t, "q", of("a", 0, 1)...)
			h := b.mustAccept(t, "q", "a")
			time.AfterFunc(7*time.Second, h.Close)
		}, 7 * time.Second},
		"an abandoned message comes back": {func(t *testing.T, b *started) {
			b.send(t, "q", of("a", 0, 1)...)
			h := b.mustAccept(t, "q", "a")
			h.AddCredit(1, core.AnyMessage)
			ds := h.take()
			settle(t, b, "q", core.Abandon, ds...)
			time.AfterFunc(3*time.Second, h.Close)
		}, 3 * time.Second},
	} {
		inBubbleNamed(t, name, func(t *testing.T, b *started) {
			b.create(t, "q", sessionful, partitioned)
			c.prepare(t, b)
			began := time.Now()
			h, err := b.accept(t.Context(), "q", "", core.PeekLock)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); h.ID() != "a" || took < c.after || took > c.after+10*time.Millisecond {
				t.Errorf("got %q after %v, want a after %v", h.ID(), took, c.after)
			}
		})
	}
}

func TestSessionWaitsWhileAPartitionIsDown(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		b.send(t, "q", of("a", 0, 2)...)
		b.store.fail(core.Busy, 0)
		time.AfterFunc(20*time.Second, func() { b.store.fail(nil) })
		began := time.Now()
		h := b.mustAccept(t, "q", "")
		if took := time.Since(began); took < 20*time.Second || took > 23*time.Second {
			t.Errorf("accepted after %v", took)
		}
		b.store.fail(core.Busy, 0)
		h.AddCredit(1, core.AnyMessage)
		if got := h.take(); len(got) > 0 {
			t.Fatalf("got %s", bodies(got))
		}
		h.drain()
		synctest.Wait()
		if got := h.drains(); !slices.Equal(got, []int{1}) {
			t.Errorf("drained %v while the store is down, want [1]", got)
		}
		h.AddCredit(2, core.AnyMessage)
		b.store.fail(nil)
		time.Sleep(3 * time.Second)
		if got, want := bodies(h.take()), "a/0 a/1"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestSessionAcceptIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := b.accept(ctx, "q", "", core.PeekLock)
			done <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, core.Timeout) {
			t.Errorf("got %v, want %v", err, core.Timeout)
		}
		b.send(t, "q", of("a", 0, 1)...)
		synctest.Wait()
		b.mustAccept(t, "q", "a") // nobody has it
	})
}

func TestSessionState(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		h := b.mustAccept(t, "q", "a")
		if got, err := h.State(t.Context()); err != nil || got != nil {
			t.Errorf("at first: got %q, %v", got, err)
		}
		if err := h.SetState(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
		h.Close()
		h = b.mustAccept(t, "q", "a")
		if got, err := h.State(t.Context()); err != nil || string(got) != "x" {
			t.Errorf("by the next holder: got %q, %v", got, err)
		}
		if err := h.SetState(t.Context(), make([]byte, 256<<10+1)); !errors.Is(err, core.TooLarge) {
			t.Errorf("larger than a message: got %v, want %v", err, core.TooLarge)
		}
		if err := h.SetState(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if got, err := h.State(t.Context()); err != nil || got != nil {
			t.Errorf("cleared: got %q, %v", got, err)
		}
	})
}

func TestSessionDeferredMessages(t *testing.T) {
	for _, mode := range []core.ReceiveMode{core.PeekLock, core.ReceiveAndDelete} {
		inBubbleNamed(t, fmt.Sprint("mode ", mode), func(t *testing.T, b *started) {
			b.create(t, "q", sessionful, partitioned)
			b.send(t, "q", of("a", 0, 2)...)
			b.send(t, "q", of("b", 0, 1)...)
			h, other := b.mustAccept(t, "q", "a"), b.mustAccept(t, "q", "b")
			h.AddCredit(2, core.AnyMessage)
			ds := h.take()
			settle(t, b, "q", core.Defer, ds[0])
			n := ds[0].SequenceNumber
			if _, err := other.ReceiveDeferred(t.Context(), []int64{n}, mode); !errors.Is(err, core.MessageNotFound) {
				t.Errorf("by another session: got %v, want %v", err, core.MessageNotFound)
			}
			if _, err := b.ReceiveDeferred(t.Context(), root, core.At("q"), []int64{n}, mode); !errors.Is(err, core.NotAllowed) {
				t.Errorf("without a session: got %v, want %v", err, core.NotAllowed)
			}
			got, err := h.ReceiveDeferred(t.Context(), []int64{n}, mode)
			if err != nil || bodies(got) != "a/0" || got[0].LockToken.IsZero() != (mode == core.ReceiveAndDelete) {
				t.Fatalf("got %v, %v", got, err)
			}
			if mode == core.PeekLock {
				settle(t, b, "q", core.Complete, got...)
			}
			if _, err := h.ReceiveDeferred(t.Context(), []int64{n}, mode); !errors.Is(err, core.MessageNotFound) {
				t.Errorf("once more: got %v, want %v", err, core.MessageNotFound)
			}
		})
	}
}

func TestSessionPeeksItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful, partitioned)
		for i := range 300 {
			b.send(t, "q", append(of("b", i, 2), of("a", i, 1)...)...)
		}
		h := b.mustAccept(t, "q", "a")
		got, err := h.Peek(t.Context(), 0, 3)
		if err != nil || bodies(got) != "a/0 a/1 a/2" {
			t.Fatalf("got %s, %v", bodies(got), err)
		}
		all := 0
		for from := int64(0); ; {
			ds, err := h.Peek(t.Context(), from, 100)
			if err != nil {
				t.Fatal(err)
			}
			if len(ds) == 0 {
				break
			}
			all += len(ds)
			from = ds[len(ds)-1].SequenceNumber + 1
		}
		if all != 300 {
			t.Errorf("got %d messages, want 300", all)
		}
		if ds, err := b.Peek(t.Context(), root, core.At("q"), nil, 0, 1000); err != nil || len(ds) != 900 {
			t.Errorf("without a session: got %d messages, %v; want 900", len(ds), err)
		}
	})
}

func TestSessionReceivesAndDeletes(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		b.send(t, "q", of("a", 0, 3)...)
		h, err := b.accept(t.Context(), "q", "a", core.ReceiveAndDelete)
		if err != nil {
			t.Fatal(err)
		}
		h.AddCredit(2, core.AnyMessage)
		got := h.take()
		if bodies(got) != "a/0 a/1" || !got[0].LockToken.IsZero() {
			t.Errorf("got %s with lock %v", bodies(got), got[0].LockToken)
		}
		h.Close()
		next := b.mustAccept(t, "q", "a")
		next.AddCredit(5, core.AnyMessage)
		if got, want := bodies(next.take()), "a/2"; got != want {
			t.Errorf("left: got %s, want %s", got, want)
		}
	})
}

func TestSessionDrainWaitsForTheCallUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		b.send(t, "q", of("a", 0, 2)...)
		h := b.mustAccept(t, "q", "a")
		gate := make(chan struct{})
		b.store.holdLocks(func() { <-gate })
		h.AddCredit(5, core.AnyMessage)
		synctest.Wait()
		h.drain()
		synctest.Wait()
		if got := h.drains(); len(got) > 0 {
			t.Fatalf("drained %v while the store is asked", got)
		}
		b.store.holdLocks(nil)
		close(gate)
		if got, want := bodies(h.take()), "a/0 a/1"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := h.drains(); !slices.Equal(got, []int{3}) {
			t.Errorf("drained %v, want [3]", got)
		}
		b.send(t, "q", of("a", 2, 1)...)
		if got := h.take(); len(got) > 0 {
			t.Errorf("after the drain: got %s", bodies(got))
		}
		h.Close()
		h.drain()
		synctest.Wait()
		if got := h.drains(); !slices.Equal(got, []int{3, 0}) {
			t.Errorf("after close: drained %v, want [3 0]", got)
		}
	})
}

func TestSessionsEndWithTheirEntity(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, b *started)
		code   core.Code
	}{
		"disabled": {func(t *testing.T, b *started) {
			s := core.DefaultSettings(core.Queue)
			s.RequiresSession, s.Status = true, core.StatusReceiveDisabled
			if _, err := b.UpdateEntity(t.Context(), root, "q", s); err != nil {
				t.Fatal(err)
			}
		}, core.EntityDisabled},
		"deleted": {func(t *testing.T, b *started) {
			if err := b.DeleteEntity(t.Context(), root, "q"); err != nil {
				t.Fatal(err)
			}
		}, core.NotFound},
		"stopped": {func(_ *testing.T, b *started) { b.stop() }, core.Busy},
	} {
		inBubbleNamed(t, name, func(t *testing.T, b *started) {
			ent := b.create(t, "q", sessionful)
			h := b.mustAccept(t, "q", "a")
			waiting := make(chan error, 1)
			go func() {
				_, err := b.accept(t.Context(), "q", "", core.PeekLock)
				waiting <- err
			}()
			synctest.Wait()
			c.change(t, b)
			synctest.Wait()
			if got := h.closures(); len(got) != 1 || core.CodeOf(got[0]) != c.code {
				t.Errorf("closed with %v, want %v", got, c.code)
			}
			if err := <-waiting; core.CodeOf(err) != c.code {
				t.Errorf("the waiting one: got %v, want %v", err, c.code)
			}
			if _, err := h.State(t.Context()); !errors.Is(err, core.SessionLockLost) {
				t.Errorf("state: got %v, want %v", err, core.SessionLockLost)
			}
			if c.code == core.NotFound {
				return
			}
			if _, _, _, err := ent.Partition(0, core.Main).In(b.store).AcceptSession(t.Context(), core.SessionRequest{ID: "a"}); err != nil {
				t.Errorf("the session was not given back: %v", err)
			}
		})
	}
}

func TestSessionsWhereTheyDoNotBelong(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "plain")
		b.create(t, "q", sessionful)
		for name, c := range map[string]struct {
			err  error
			code core.Code
			text string
		}{
			"a session of a plain queue":   {errorOf(b.accept(t.Context(), "plain", "a", core.PeekLock)), core.NotAllowed, "A sessionful message receiver cannot be created on an entity that does not require sessions."},
			"a session of dead letters":    {errorOf(b.accept(t.Context(), "q/$DeadLetterQueue", "a", core.PeekLock)), core.NotImplemented, "Cannot create a MessageSession for a sub-queue."},
			"no session":                   {errorOf(b.OpenReceiver(t.Context(), root, core.At("q"), core.ReceiverOptions{})), core.NotAllowed, "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."},
			"a purge without a session":    {errorOf(b.Purge(t.Context(), root, core.At("q"), b.store.Now(), 1)), core.NotAllowed, "It is not possible"},
			"a list of a plain queue":      {errorOf(b.ListSessions(t.Context(), root, core.At("plain"), time.Time{}, 0, 1)), core.NotAllowed, "A sessionful"},
			"a missing entity":             {errorOf(b.accept(t.Context(), "none", "a", core.PeekLock)), core.NotFound, "could not be found"},
			"an id that is too long":       {errorOf(b.accept(t.Context(), "q", strings.Repeat("x", 129), core.PeekLock)), core.InvalidArgument, "SessionId has 129 characters"},
			"nobody in particular":         {errorOf(b.AcceptSession(t.Context(), nil, core.At("q"), core.SessionOptions{Next: true})), core.Unauthorized, ""},
			"a message without session id": {b.sender(t, "q").Send(t.Context(), each(text("x")))[0].Err, core.NotAllowed, "The SessionId was not set on a message"},
		} {
			if core.CodeOf(c.err) != c.code || !strings.Contains(core.TextOf(c.err), c.text) {
				t.Errorf("%s: got %v, want %v: %s", name, c.err, c.code, c.text)
			}
		}
		b.receive(t, "q/$DeadLetterQueue", core.PeekLock, 1) // these have no sessions
	})
}

func TestListSessions(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful, partitioned)
		var want []string
		for i := range 450 {
			id := fmt.Sprintf("s%03d", i)
			want = append(want, id)
			b.send(t, "q", of(id, 0, 1)...)
		}
		list := func(since time.Time, skip, top int) []string {
			t.Helper()
			ids, err := b.ListSessions(t.Context(), root, core.At("q"), since, skip, top)
			if err != nil {
				t.Fatal(err)
			}
			return ids
		}
		if got := list(time.Time{}, 0, 1000); !slices.Equal(got, want) {
			t.Errorf("all: got %d: %v", len(got), got)
		}
		if got := list(time.Time{}, 100, 5); !slices.Equal(got, want[100:105]) {
			t.Errorf("five of them: got %v, want %v", got, want[100:105])
		}
		if got := list(time.Time{}, 450, 5); len(got) > 0 {
			t.Errorf("behind the last: got %v", got)
		}
		began := b.store.Now()
		time.Sleep(time.Second)
		if err := b.mustAccept(t, "q", "s007").SetState(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
		if got := list(began, 0, 10); !slices.Equal(got, []string{"s007"}) {
			t.Errorf("with new state: got %v, want [s007]", got)
		}
	})
}

// A list that skips begins where an earlier list passed, for a while: reading 100,000 sessions page after page reads
// each of them about once.
func TestAListOfSessionsGoesOnWhereTheLastOneEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful, partitioned)
		id := func(i int) string { return fmt.Sprintf("s%04d", i) }
		for i := range 2*sessionPage + 10 {
			b.send(t, "q", of(id(i), 0, 1)...)
		}
		list := func(skip int, want string) {
			t.Helper()
			ids, err := b.ListSessions(t.Context(), root, core.At("q"), time.Time{}, skip, 3)
			if got := strings.Join(ids, " "); err != nil || got != want {
				t.Errorf("skip %d: got %s, %v, want %s", skip, got, err, want)
			}
		}
		list(2*sessionPage+8, "s2008 s2009")
		h := b.mustAccept(t, "q", id(0))
		h.AddCredit(1, core.AnyMessage)
		synctest.Wait()
		settle(t, b, "q", core.Complete, h.take()...)
		list(1, "s0002 s0003 s0004")
		list(sessionPage, "s1000 s1001 s1002") // from the mark
		list(2*sessionPage+5, "s2005 s2006 s2007")
		time.Sleep(marksLife)
		list(sessionPage, "s1001 s1002 s1003")
		list(2*sessionPage+5, "s2006 s2007 s2008")
	})
}

// A scheduled message, and one that another gateway's doorbell announces too late or
// to nobody, reach a holder that waits.
func TestSessionHolderLooksByItself(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		h := b.mustAccept(t, "q", "a")
		h.AddCredit(10, core.AnyMessage)
		synctest.Wait()
		m := of("a", 0, 1)
		m[0].ScheduledEnqueueTime = b.store.Now().Add(5 * time.Second)
		b.send(t, "q", m...)
		time.Sleep(5*time.Second + 5*time.Millisecond)
		if got, want := bodies(h.take()), "a/0"; got != want {
			t.Errorf("got %q, want %s", got, want)
		}
	})
}

func TestSessionHubEndsWhenNobodyComes(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		e := b.cached("q")
		h := b.mustAccept(t, "q", "a")
		if !e.inUse() || !e.receivers.HasReceivers() {
			t.Error("a held session is no use of the entity")
		}
		time.Sleep(30 * time.Second)
		h.Close()
		time.Sleep(delivery.IdleLife - time.Second)
		if !e.inUse() {
			t.Error("the hub ended at once")
		}
		time.Sleep(2 * time.Second)
		if e.inUse() {
			t.Error("the hub stays for ever")
		}
		b.mustAccept(t, "q", "a").Close()
	})
}

func TestPeekInASessionFindsWhatIsBehindOtherSessions(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		s := b.sender(t, "q")
		defer s.Close()
		for range 205 {
			others := make([]*core.Message, 100)
			for i := range others {
				others[i] = inSession("other")
			}
			if a := s.Send(t.Context(), [][]*core.Message{others})[0]; a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		b.send(t, "q", inSession("mine"), inSession("other"), inSession("mine"))
		ds, err := b.holdID(t, "q", "mine").Peek(t.Context(), 0, 9)
		if err != nil || len(ds) != 2 {
			t.Errorf("got %d messages, %v, want the 2 of the session", len(ds), err)
		}
	})
}
