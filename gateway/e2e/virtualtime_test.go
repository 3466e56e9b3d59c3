package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// inVirtualTime is the env in a namespace of its own with virtual time, which stands still until it is moved: however busy
// the machine is, no lock ends and no message expires before the story wants it.
func (e *env) inVirtualTime() *env {
	e.Helper()
	in := *e
	in.namespace = e.createNamespaceWith(`{"virtualTime": true}`)
	in.moveClock(`{"freeze": true}`)
	return &in
}

// clock is what the gateway tells of a clock.
type clock struct {
	Now    time.Time
	Frozen bool
	Ahead  string
}

// moveClock moves the time of the env's namespace.
func (e *env) moveClock(body string) (told clock) {
	e.Helper()
	a := e.http("PUT", "$crosstown/clock", body, nil)
	if err := json.Unmarshal([]byte(a.body), &told); a.status != 200 || err != nil {
		e.Fatalf("move the clock by %s: got %d %s", body, a.status, a.body)
	}
	return told
}

func (e *env) advance(d time.Duration) {
	e.Helper()
	e.moveClock(`{"advance": "` + d.String() + `"}`)
}

// now is the time of the env's namespace.
func (e *env) now() (at time.Time) {
	e.Helper()
	var told clock
	a := e.http("GET", "$crosstown/clock", "", nil)
	if err := json.Unmarshal([]byte(a.body), &told); a.status != 200 || err != nil {
		e.Fatalf("the clock: got %d %s", a.status, a.body)
	}
	return told.Now
}

// All that depends on time follows the namespace's.
func TestAMonthPassesInAMoment(t *testing.T) {
	tell(t, func(e *env) {
		e = e.inVirtualTime()
		e.moveClock(`{"freeze": true, "set": "2030-02-01T00:00:00Z"}`)
		began := time.Date(2030, 2, 1, 0, 0, 0, 0, time.UTC)
		queue := e.queue(&admin.QueueProperties{LockDuration: new("PT5M"), DefaultMessageTimeToLive: new("P14D"), DeadLetteringOnMessageExpiration: new(true)})
		e.send(queue, "one")
		r := e.receiver(queue)
		m := e.one(r)
		if !m.EnqueuedTime.Equal(began) || !m.LockedUntil.Equal(began.Add(5*time.Minute)) || !m.ExpiresAt.Equal(began.AddDate(0, 0, 14)) {
			e.Errorf("enqueued at %v, locked until %v, expires at %v", m.EnqueuedTime, m.LockedUntil, m.ExpiresAt)
		}
		again := beside(e, func() *azservicebus.ReceivedMessage { return e.one(r) })
		e.advance(5 * time.Minute) // the receiver waits
		if m := <-again; m.DeliveryCount != 2 {
			e.Errorf("delivered %d times", m.DeliveryCount)
		}
		e.wantCode(r.CompleteMessage(e.ctx(), m, nil), azservicebus.CodeLockLost)
		e.advance(5 * time.Minute)
		e.advance(14 * 24 * time.Hour)
		if m := e.one(e.deadLetters(queue)); *m.DeadLetterReason != "TTLExpiredException" {
			e.Errorf("dead-lettered because of %q", *m.DeadLetterReason)
		}

		topic := e.topic(nil)
		onward := e.queue(nil)
		e.subscribe(topic, "all", &admin.SubscriptionProperties{ForwardTo: &onward})
		due := e.now().Add(24 * time.Hour)
		e.post(e.sender(topic), &azservicebus.Message{Body: []byte("tomorrow"), ScheduledEnqueueTime: &due})
		e.advance(24 * time.Hour) // when it returns, the message is where it goes
		if c := e.runtime(onward); c.ActiveMessageCount != 1 {
			e.Errorf("%d messages were published and forwarded", c.ActiveMessageCount)
		}

		sessions := e.queue(withSessions())
		e.sendTo(sessions, "s", "hello")
		holder := e.accept(sessions, "s")
		waiting := beside(e, func() session { return e.next(sessions) })
		e.advance(2 * time.Minute)
		(<-waiting).end()
		if err := holder.SetSessionState(e.ctx(), []byte("x"), nil); err == nil {
			e.Error("the first holder has set the session's state")
		}

		unique := e.queue(&admin.QueueProperties{RequiresDuplicateDetection: new(true), DuplicateDetectionHistoryTimeWindow: new("PT10M")})
		once := &azservicebus.Message{MessageID: new("same"), Body: []byte("x")}
		s := e.sender(unique)
		for range 2 {
			e.post(s, once)
		}
		e.advance(11 * time.Minute)
		e.post(s, once)
		if c := e.runtime(unique); c.ActiveMessageCount != 2 {
			e.Errorf("%d messages of one id in two windows", c.ActiveMessageCount)
		}

		idle := e.queue(&admin.QueueProperties{AutoDeleteOnIdle: new("P7D")})
		used := e.queue(&admin.QueueProperties{AutoDeleteOnIdle: new("P7D")})
		open := e.receiver(used)
		e.send(used, "x")
		e.complete(open, e.one(open))
		e.advance(7 * 24 * time.Hour)
		if q, err := e.admin().GetQueue(e.ctx(), idle, nil); err != nil || q != nil {
			e.Errorf("the idle queue: %v, %v", q, err)
		}
		e.send(used, "still there")
		e.complete(open, e.one(open))

		if at := e.moveClock(`{"resume": true}`); at.Frozen || at.Now.Before(began.AddDate(0, 0, 22)) {
			e.Errorf("resumed: %+v", at)
		}
		if out := e.crosstown("clock", "advance", "P1D"); !slices.Contains([]string{"2030-02-23", "2030-02-24"}, out[:10]) {
			e.Errorf("the command line: %s", out)
		}
	}, "memory/tcp", "file/tcp", "redis/tcp", "cluster/tcp")
}

// Other namespaces do not notice.
func TestTimeIsMovedInOneNamespace(t *testing.T) {
	onEachEngine(t, func(e *env) {
		moved := e.inVirtualTime()
		queue := e.queue(nil)
		e.send(queue, "one")
		r := e.receiver(queue)
		m := e.one(r)
		moved.advance(24 * time.Hour)
		e.complete(r, m)
		for _, refused := range []struct {
			e          *env
			body, want string
		}{
			{e, `{"freeze": true}`, "uses real time"},
			{moved, `{}`, "must have at least one of 'freeze'"},
			{moved, `{"freeze": true, "resume": true}`, "not both"},
			{moved, `{"advance": "soon"}`, "it must be a duration"},
			{moved, `{"set": "1999-01-01T00:00:00Z"}`, "between the years 2000 and 2200"},
			{moved, `{"advance": "2000000h"}`, "between the years 2000 and 2200"},
			{moved, `{"advance": "1h", "set": "2030-01-01T00:00:00Z"}`, "not both"},
		} {
			a := refused.e.http("PUT", "$crosstown/clock", refused.body, nil)
			if a.status/100 != 4 || !strings.Contains(a.body, refused.want) {
				e.Errorf("%s: got %d %s", refused.body, a.status, a.body)
			}
		}
	})
}

// A namespace keeps its time over a restart, and gateways on one Redis share it.
func TestVirtualTimeIsKept(t *testing.T) {
	t.Parallel()
	t.Run("restart", func(t *testing.T) {
		t.Parallel()
		e := &env{T: t, gw: own(t, "file"), plain: true}
		n := e.inVirtualTime()
		n.moveClock(`{"freeze": true, "set": "2031-01-01T00:00:00Z"}`)
		queue := n.queue(nil)
		n.send(queue, "before")
		e.gw.stop()
		if err := e.gw.start(); err != nil {
			t.Fatal(err)
		}
		if at := n.now(); !at.Equal(time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("after the restart the time is %v", at)
		}
		if m := n.one(n.receiver(queue)); !m.LockedUntil.Equal(n.now().Add(time.Minute)) {
			t.Errorf("locked until %v", m.LockedUntil)
		}
		home := e.queue(nil)
		e.send(home, "x")
		if m := e.one(e.receiver(home)); time.Until(*m.LockedUntil) > 2*time.Minute {
			t.Errorf("in the gateway's own namespace: locked until %v", m.LockedUntil)
		}
	})
	t.Run("gateways", func(t *testing.T) {
		t.Parallel()
		r := redistest.Start(t, redistest.Options{AOF: "always"})
		one := &env{T: t, gw: own(t, r.URL()), plain: true}
		two := &env{T: t, gw: own(t, r.URL()), plain: true}
		a := one.inVirtualTime()
		b := *two
		b.namespace = a.namespace
		queue := a.queue(&admin.QueueProperties{LockDuration: new("PT5M")})
		a.send(queue, "one")
		first := b.receiver(queue)
		m := b.one(first)
		again := beside(&b, func() *azservicebus.ReceivedMessage { return b.one(first) })
		a.advance(5 * time.Minute) // at the other gateway
		if got := <-again; got.DeliveryCount != 2 || got.EnqueuedTime == nil || !got.EnqueuedTime.Equal(*m.EnqueuedTime) {
			t.Errorf("delivered %d times", got.DeliveryCount)
		}
	})
}
