package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core"
)

// wantText checks what an error says.
func (e *env) wantText(err error, want string) {
	e.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		e.Fatalf("got error %v, want one that says %q", err, want)
	}
}

func TestASessionIsHeldByOneAndComesInOrder(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(withSessions())
		sender := e.sender(queue)
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprint(i))
			for _, id := range []string{"a", "b"} {
				e.post(sender, &azservicebus.Message{Body: fmt.Append(nil, i), SessionID: &id})
			}
		}
		a := e.accept(queue, "a")
		if until := time.Until(a.LockedUntil()); until < 30*time.Second || until > 2*time.Minute {
			e.Errorf("the session is locked for %v", until)
		}
		ms := a.take(10)
		if got := bodies(ms); !slices.Equal(got, want) {
			e.Errorf("session a: got %v, want %v", got, want)
		}
		for _, m := range ms {
			if *m.SessionID != "a" {
				e.Errorf("got a message of session %s", *m.SessionID)
			}
		}
		_, err := e.client().AcceptSessionForQueue(e.ctx(), queue, "a", nil)
		e.wantCondition(err, "com.microsoft:session-cannot-be-locked")
		b := e.next(queue)
		if b.SessionID() != "b" {
			e.Errorf("the next session: got %s, want b", b.SessionID())
		}
		a.complete(ms...)
		b.complete(b.take(10)...)
		if n := e.runtime(queue).TotalMessageCount; n != 0 {
			e.Errorf("%d messages are left", n)
		}
	})
}

func TestTheNextSessionIsWaitedFor(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(withSessions())
		ctx, cancel := context.WithTimeout(e.Context(), silence)
		defer cancel()
		_, err := e.client().AcceptNextSessionForQueue(ctx, queue, nil)
		if coded, ok := errors.AsType[*azservicebus.Error](err); !errors.Is(err, context.DeadlineExceeded) && (!ok || coded.Code != azservicebus.CodeTimeout) {
			e.Fatalf("no session is there: got %v, want a time-out", err)
		}
		got := beside(e, func() string {
			r, err := e.client().AcceptNextSessionForQueue(e.ctx(), queue, nil)
			if err != nil {
				e.Fatalf("wait: %v", err)
			}
			return r.SessionID()
		})
		time.Sleep(silence) // most likely it waits by then; if not, it gets the session all the same
		e.sendTo(queue, "late", "x")
		if id := <-got; id != "late" {
			e.Errorf("got session %q, want late", id)
		}
	})
}

func TestReleasedSessionContinuesElsewhere(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(withSessions())
		e.sendTo(queue, "s", "1", "2", "3")
		first := e.accept(queue, "s")
		ms := first.take(2)
		first.complete(ms[0])
		first.end()
		second := e.accept(queue, "s")
		ms = second.take(2)
		if got := bodies(ms); !slices.Equal(got, []string{"2", "3"}) || ms[0].DeliveryCount != 1 {
			e.Errorf("got %v, first delivery %d; want 2 and 3, and that the end of a session counts as no delivery", got, ms[0].DeliveryCount)
		}
		second.complete(ms...)
	})
}

// Functions' TestSingle_ReleaseSession and TestMultiple_ReleaseSession count on this order.
func TestAReleasedSessionWaitsBehindOthers(t *testing.T) {
	onEachEngine(t, func(e *env) {
		for _, c := range []struct {
			releases int // after so many messages the receiver takes the rest of a session
			want     string
		}{{1, "s1 s2 s2 s1"}, {4, "s1 s2 s1 s2"}} {
			queue := e.queue(&admin.QueueProperties{RequiresSession: new(true)})
			for _, id := range []string{"s1", "s1", "s2", "s2"} {
				e.sendTo(queue, id, "x")
			}
			var order []string
			for len(order) < 4 {
				s := e.next(queue)
				n := 1
				if len(order) == c.releases { // it releases no more
					n = 2
				}
				for _, m := range s.take(n) {
					s.complete(m)
					order = append(order, s.SessionID())
				}
				s.end()
			}
			if got := strings.Join(order, " "); got != c.want {
				e.Errorf("%d releases: got %q, want %q", c.releases, got, c.want)
			}
		}
	})
}

func TestASessionsStateOutlivesItsMessages(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(withSessions())
		s := e.accept(queue, "s") // a session need not have messages
		if state, err := s.GetSessionState(e.ctx(), nil); err != nil || state != nil {
			e.Errorf("at first: got %q %v, want none", state, err)
		}
		if err := s.SetSessionState(e.ctx(), []byte("half way"), nil); err != nil {
			e.Fatal(err)
		}
		s.end()
		s = e.accept(queue, "s")
		if state, err := s.GetSessionState(e.ctx(), nil); err != nil || string(state) != "half way" {
			e.Errorf("afterwards: got %q %v, want half way", state, err)
		}
		if err := s.SetSessionState(e.ctx(), nil, nil); err != nil {
			e.Fatal(err)
		}
		if state, err := s.GetSessionState(e.ctx(), nil); err != nil || len(state) != 0 {
			e.Errorf("cleared: got %q %v, want none", state, err)
		}
	})
}

func TestASessionLockIsRenewedOrEnds(t *testing.T) {
	onEachEngine(t, func(e *env) {
		e = e.inVirtualTime()
		queue := e.queue(&admin.QueueProperties{RequiresSession: new(true), LockDuration: new("PT10S")})
		e.sendTo(queue, "s", "x", "y")
		s := e.accept(queue, "s")
		ms := s.take(2)
		for range 3 { // to beyond the first lock, of s and of its messages
			e.advance(4 * time.Second)
			before := s.LockedUntil()
			if err := s.RenewSessionLock(e.ctx(), nil); err != nil || !s.LockedUntil().After(before) {
				e.Fatalf("renew: locked until %v, then %v, %v", before, s.LockedUntil(), err)
			}
		}
		s.complete(ms[0])
		// It is not renewed any more: another takes over, and the message counts as delivered.
		e.advance(10*time.Second + core.SessionGrace)
		next := e.accept(queue, "s")
		// The SDK takes a lost session for something that comes back, and tries again for long.
		soon, cancel := context.WithTimeout(e.ctx(), time.Second)
		defer cancel()
		if err := s.CompleteMessage(soon, ms[1], nil); err == nil {
			e.Error("a message was completed after the lock of its session had ended")
		}
		again := next.take(1)
		if string(again[0].Body) != "y" || again[0].DeliveryCount != 2 {
			e.Errorf("taken over: got %q, delivery %d; want y, 2", again[0].Body, again[0].DeliveryCount)
		}
		next.complete(again...)
	})
}

func TestWhatDoesNotFitSessionsIsRefused(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue, plain := e.queue(withSessions()), e.queue(nil)
		err := e.sender(queue).SendMessage(e.ctx(), &azservicebus.Message{Body: []byte("x")}, nil)
		e.wantText(err, "SessionId")
		_, err = e.receiver(queue).ReceiveMessages(e.ctx(), 1, nil)
		e.wantCondition(err, amqp.ErrCondNotAllowed)
		if _, err = e.client().AcceptSessionForQueue(e.ctx(), plain, "s", nil); err == nil {
			e.Error("a session of a queue without sessions was accepted")
		}
	})
}

func TestDeferredMessagesBelongToTheirSession(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(withSessions())
		e.sendTo(queue, "s", "x")
		s := e.accept(queue, "s")
		m := s.take(1)[0]
		if err := s.DeferMessage(e.ctx(), m, nil); err != nil {
			e.Fatal(err)
		}
		other := e.accept(queue, "other")
		if _, err := other.ReceiveDeferredMessages(e.ctx(), []int64{*m.SequenceNumber}, nil); err == nil {
			e.Error("another session received it")
		}
		ms, err := s.ReceiveDeferredMessages(e.ctx(), []int64{*m.SequenceNumber}, nil)
		if err != nil || len(ms) != 1 || string(ms[0].Body) != "x" {
			e.Fatalf("got %v %v", ms, err)
		}
		s.complete(ms...)
	})
}

func TestSessionsAreListed(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(withSessions())
		for _, id := range []string{"b", "a", "c"} {
			e.sendTo(queue, id, "x")
		}
		s := e.accept(queue, "state-only")
		if err := s.SetSessionState(e.ctx(), []byte("x"), nil); err != nil {
			e.Fatal(err)
		}
		var ids []string
		for pages := e.client().NewListSessionsForQueuePager(queue, nil); pages.More(); {
			page, err := pages.NextPage(e.ctx())
			if err != nil {
				e.Fatal(err)
			}
			ids = append(ids, page.Sessions...)
		}
		slices.Sort(ids)
		if !slices.Equal(ids, []string{"a", "b", "c", "state-only"}) {
			e.Errorf("got %v", ids)
		}
	})
}

// Ids are compared without regard to case; each message keeps its own, and the receiver the one that it asked for.
func TestSessionIDsDifferInMoreThanCase(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(withSessions())
		e.sendTo(queue, "Order-Ä", "1")
		e.sendTo(queue, "order-ä", "2")
		s := e.accept(queue, "ORDER-ä")
		if got := s.SessionID(); got != "ORDER-ä" {
			e.Errorf("accepted session %q, want it as it was asked for", got)
		}
		ms := s.take(2)
		if got := bodies(ms); !slices.Equal(got, []string{"1", "2"}) || *ms[0].SessionID != "Order-Ä" || *ms[1].SessionID != "order-ä" {
			e.Errorf("got %v of sessions %q and %q", got, *ms[0].SessionID, *ms[1].SessionID)
		}
		_, err := e.client().AcceptSessionForQueue(e.ctx(), queue, "Order-Ä", nil)
		e.wantCondition(err, "com.microsoft:session-cannot-be-locked")
		if err := s.SetSessionState(e.ctx(), []byte("state"), nil); err != nil {
			e.Fatal(err)
		}
		if err := s.DeferMessage(e.ctx(), ms[0], nil); err != nil {
			e.Fatal(err)
		}
		again, err := s.ReceiveDeferredMessages(e.ctx(), []int64{*ms[0].SequenceNumber}, nil)
		if err != nil || len(again) != 1 {
			e.Fatalf("the deferred message: got %v %v", again, err)
		}
		s.complete(again[0])
		if err := s.Close(e.ctx()); err != nil {
			e.Fatal(err)
		}
		next := e.next(queue)
		if got := next.SessionID(); got != "order-ä" {
			e.Errorf("the next session is %q, want it as its oldest message has it", got)
		}
		if state, err := next.GetSessionState(e.ctx(), nil); err != nil || string(state) != "state" {
			e.Errorf("state: got %q, %v", state, err)
		}
		next.complete(next.take(1)...)
	})
}

// The empty id is that of a session like others.
func TestTheSessionOfTheEmptyID(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(withSessions())
		e.sendTo(queue, "", "1")
		e.post(e.sender(queue), &azservicebus.Message{Body: []byte("2"), SessionID: new(""), PartitionKey: new("any")})
		e.sendTo(queue, "other", "3")
		s := e.next(queue)
		if got := s.SessionID(); got != "" {
			e.Fatalf("the next session is %q, want the empty one", got)
		}
		ms := s.take(2)
		if got := bodies(ms); !slices.Equal(got, []string{"1", "2"}) || ms[0].SessionID == nil || *ms[0].SessionID != "" {
			e.Errorf("got %v of session %v", got, ms[0].SessionID)
		}
		if _, err := s.PeekMessages(e.ctx(), 9, nil); err != nil {
			e.Errorf("peek: %v", err)
		}
		_, err := e.client().AcceptSessionForQueue(e.ctx(), queue, "", nil)
		e.wantCondition(err, "com.microsoft:session-cannot-be-locked")
		if err := s.SetSessionState(e.ctx(), []byte("state"), nil); err != nil {
			e.Fatal(err)
		}
		if err := s.RenewSessionLock(e.ctx(), nil); err != nil {
			e.Errorf("renew: %v", err)
		}
		s.complete(ms[0])
		if err := s.Close(e.ctx()); err != nil {
			e.Fatal(err)
		}
		s = e.accept(queue, "")
		if state, err := s.GetSessionState(e.ctx(), nil); err != nil || string(state) != "state" {
			e.Errorf("state: got %q, %v", state, err)
		}
		if ms = s.take(1); bodies(ms)[0] != "2" {
			e.Errorf("got %v, want 2", bodies(ms))
		}
		if err := s.DeadLetterMessage(e.ctx(), ms[0], nil); err != nil {
			e.Fatal(err)
		}
		if dead := e.one(e.deadLetters(queue)); dead.SessionID == nil || *dead.SessionID != "" {
			e.Errorf("the dead letter has session %v, want the empty one", dead.SessionID)
		}
		page, err := e.client().NewListSessionsForQueuePager(queue, nil).NextPage(e.ctx())
		if err != nil || !slices.Equal(page.Sessions, []string{"", "other"}) {
			e.Errorf("sessions: got %q, %v", page.Sessions, err)
		}
	})
}

// The id that a BrokerProperties header has belongs to the same sessions.
func TestPostedToSessionsOfAnyID(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(withSessions())
		for i, id := range []string{"", "Id", "iD"} {
			e.wantHTTP(e.http(http.MethodPost, queue+"/messages", fmt.Sprint(i), http.Header{"BrokerProperties": {fmt.Sprintf(`{"SessionId":%q}`, id)}}), http.StatusCreated)
		}
		if a := e.http(http.MethodPost, queue+"/messages", "no session", nil); a.status == http.StatusCreated {
			e.Error("a message without a session was taken")
		}
		for id, want := range map[string][]string{"": {"0"}, "ID": {"1", "2"}} {
			s := e.accept(queue, id)
			if got := bodies(s.take(len(want))); !slices.Equal(got, want) {
				e.Errorf("session %q: got %v, want %v", id, got, want)
			}
		}
	})
}

func TestASessionGoesOnAtAnotherGateway(t *testing.T) {
	t.Parallel()
	a, b := fleet(t)
	a = a.inVirtualTime()
	b.namespace = a.namespace
	queue := a.queue(withSessions())
	a.sendTo(queue, "s", "1", "2")
	held := a.accept(queue, "s")
	held.complete(held.take(1)...)
	_, err := b.client().AcceptSessionForQueue(b.ctx(), queue, "s", nil)
	b.wantCondition(err, "com.microsoft:session-cannot-be-locked")
	a.gw.kill()
	b.advance(5 * time.Minute)
	next := b.accept(queue, "s")
	if got := bodies(next.take(1)); got[0] != "2" {
		t.Errorf("got %v, want 2", got)
	}
}
