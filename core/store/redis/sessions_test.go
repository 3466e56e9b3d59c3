package redis_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// sessions makes an entity of one partition whose messages belong to sessions.
func sessions(tb testing.TB, s core.Store) core.Partition {
	tb.Helper()
	p := queue(tb, s)
	p.Sessions = true
	return p
}

func sendIn(tb testing.TB, s core.Store, p core.Partition, session string, bodies ...string) {
	tb.Helper()
	for _, body := range bodies {
		m := message(body)
		m.SessionID = session
		if a := p.In(s).Append(tb.Context(), [][]*core.Message{{m}}); a[0].Err != nil {
			tb.Fatalf("append: %v", a[0].Err)
		}
	}
}

func accept(tb testing.TB, s core.Store, p core.Partition, session string) core.SessionLock {
	tb.Helper()
	l, _, _, err := p.In(s).AcceptSession(tb.Context(), core.SessionRequest{ID: session})
	if err != nil {
		tb.Fatalf("accept session: %v", err)
	}
	return l
}

func lockIn(tb testing.TB, s core.Store, p core.Partition, l core.SessionLock, limit int) []core.Delivery {
	tb.Helper()
	ds, _, err := p.In(s).Lock(tb.Context(), core.LockRequest{Most: core.Most{Messages: limit}, Session: &l})
	if err != nil {
		tb.Fatalf("lock in session: %v", err)
	}
	return ds
}

// Ids are any text: none may be taken for a part of another or of its messages.
func TestSessionIDsAreAnyText(t *testing.T) {
	t.Parallel()
	s := open(t, server(t).URL(), redisstore.Options{})
	p := sessions(t, s)
	ids := []string{"\x00", "\x00\x00", "\x00\x01", "\x01", "\x01\x00", "\x01\x01", "a", "a\x00", "a\x00b", "a\x01", "a\x02", "aa", "b", "ü", "\xff"}
	for _, id := range ids {
		sendIn(t, s, p, id, id)
	}
	var listed []string
	for after := core.SessionKey(""); ; {
		page, err := p.In(s).ListSessions(t.Context(), time.Time{}, after, 4)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		listed, after = append(listed, page...), core.KeyOfSession(page[len(page)-1])
	}
	if !slices.Equal(listed, ids) {
		t.Errorf("listed %q, want %q", listed, ids)
	}
	for _, id := range ids {
		l, ok, _, err := p.In(s).AcceptSession(t.Context(), core.SessionRequest{Next: true})
		if err != nil || !ok || l.ID != id {
			t.Fatalf("accept next: got %q, %v, %v, want %q", l.ID, ok, err, id)
		}
		if err := p.In(s).SetSessionState(t.Context(), l, []byte(id)); err != nil {
			t.Fatal(err)
		}
		if ds := lockIn(t, s, p, l, 9); len(ds) != 1 || ds[0].SessionID != id {
			t.Errorf("session %q: got %d messages", id, len(ds))
		}
	}
	stated, err := p.In(s).ListSessions(t.Context(), s.Now().Add(-time.Hour), "a", 100)
	if want := ids[7:]; err != nil || !slices.Equal(stated, want) {
		t.Errorf("with a state set lately: got %q, %v, want %q", stated, err, want)
	}
}

// befallSessions does one thing of many in a session.
func befallSessions(t *testing.T, s core.Store, clock *storetest.Clock, p core.Partition) {
	t.Helper()
	l, ok, _, err := p.In(s).AcceptSession(t.Context(), core.SessionRequest{Next: true})
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return
	}
	ds := lockIn(t, s, p, l, rand.IntN(4))
	clock.Advance(time.Duration(rand.IntN(4000)) * time.Millisecond)
	for _, d := range ds {
		if o := core.Outcome(rand.IntN(int(core.Release) + 2)); o <= core.Release {
			_ = p.In(s).Settle(t.Context(), []core.Settlement{{Token: d.LockToken, Outcome: o}}) // the lock may have ended
		}
	}
	switch rand.IntN(4) {
	case 0:
		_ = p.In(s).ReleaseSession(t.Context(), l) // likewise
	case 1:
		_, _ = p.In(s).RenewSession(t.Context(), l)
	case 2:
		_ = p.In(s).SetSessionState(t.Context(), l, []byte("state"))
	}
}

// drainSessions completes all that a queue with sessions holds, and forgets the
// states.
func drainSessions(t *testing.T, s core.Store, p core.Partition) {
	t.Helper()
	p.LockDuration = time.Hour
	ids, err := p.In(s).ListSessions(t.Context(), time.Time{}, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	all, err := p.In(s).Peek(t.Context(), core.PeekRequest{Max: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		l := accept(t, s, p, id)
		if err := settle(s, p, core.Complete, lockIn(t, s, p, l, 1000)...); err != nil {
			t.Fatal(err)
		}
		for _, d := range all {
			if d.State == core.Deferred && d.SessionID == id {
				ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Numbers: []int64{d.SequenceNumber}, Deferred: true, Session: &l})
				if err != nil && core.CodeOf(err) != core.MessageNotFound { // it may have expired
					t.Fatal(err)
				}
				if err := settle(s, p, core.Complete, ds...); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := p.In(s).SetSessionState(t.Context(), l, nil); err != nil {
			t.Fatal(err)
		}
		if err := p.In(s).ReleaseSession(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever befell sessions, nothing is kept about them once they are gone.
func TestADrainedQueueWithSessionsKeepsNothing(t *testing.T) {
	t.Parallel()
	clock, names := storetest.NewClock(), prefix()
	s := open(t, server(t).URL(), redisstore.Options{Clock: clock.Now, Prefix: names})
	p := sessions(t, s)
	p.LockDuration, p.MaxDeliveryCount, p.DeadLetterExpired = 10*time.Second, 3, true
	dead := p
	dead.Sub, dead.Sessions = core.DeadLetter, false
	for i := range 400 {
		m := message(fmt.Sprint(i))
		m.SessionID = fmt.Sprint(rand.IntN(8))
		if rand.IntN(2) == 0 {
			m.TimeToLive = time.Duration(1+rand.IntN(60)) * time.Second
		}
		if rand.IntN(3) == 0 {
			m.ScheduledEnqueueTime = clock.Now().Add(time.Duration(rand.IntN(60)) * time.Second)
		}
		a := p.In(s).Append(t.Context(), [][]*core.Message{{m}})
		if a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
		if rand.IntN(9) == 0 {
			_ = p.In(s).Cancel(t.Context(), a[0].Numbers) // it may not be scheduled
		}
		befallSessions(t, s, clock, p)
		if rand.IntN(9) == 0 { // what sweeps for the dead letters knows nothing of sessions
			if err := settle(s, dead, core.Complete, lock(t, s, dead, 2)...); err != nil {
				t.Fatal(err)
			}
		}
	}
	clock.Advance(2 * time.Hour)
	drainSessions(t, s, p)
	drainAll(t, s, dead)
	if got, want := keysOf(t, server(t).Client(), names, p.Entity), []string{"$h", "$m", ">$m", ">m", "h", "m"}; !slices.Equal(got, want) {
		t.Errorf("keys: got %v, want %v", got, want)
	}
}

// The bell of a session rings for its holder alone, wherever that is.
func TestTheHolderOfASessionIsRungByName(t *testing.T) {
	t.Parallel()
	deployments(t, func(t *testing.T, url string) {
		a, b := gateways(t, url)
		p := sessions(t, a)
		rung := make(chan core.SessionKey, 1000)
		defer p.In(b).Watch(core.WakeFunc(func(session core.SessionKey) { rung <- session }))()
		const id = "mine\x00\x01"
		l := accept(t, b, p, id)
		for timeout, got := time.After(patience), core.SessionKey(""); got != core.KeyOfSession(id); {
			select {
			case got = <-rung:
			case <-timeout:
				t.Fatal("nobody rang for the session")
			}
			if got == "" { // it has begun to listen, or looks around: a bell before that was not heard
				lockIn(t, b, p, l, 9) // leaves nothing: its holder waits
				sendIn(t, a, p, id, "x")
			}
		}
		if ds := lockIn(t, b, p, l, 1); len(ds) != 1 {
			t.Errorf("got %d messages, want 1", len(ds))
		}
	})
}

func TestSessionsAndTopicsNeedNoLoadedScripts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{}) // flushing is for all
	s := open(t, server.URL(), redisstore.Options{})
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := server.Client().ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatalf("script flush: %v", err)
		}
	}
	st := newStand(t, s)
	must("create", nil)
	p := st.subscribe(s, "s", true)
	must("subscribe", nil)
	m := message(large)
	m.SessionID = "x"
	must("publish", st.publish(s, st.version(s), to(m, p, p)))
	l := accept(t, s, p, "x")
	must("accept", nil)
	ds := lockIn(t, s, p, l, 9)
	must("lock", nil)
	_, err := p.In(s).RenewSession(t.Context(), l)
	must("renew session", err)
	must("renew", p.In(s).Renew(t.Context(), []core.LockToken{ds[0].LockToken})[0].Err)
	must("set state", p.In(s).SetSessionState(t.Context(), l, []byte("x")))
	_, err = p.In(s).SessionState(t.Context(), l)
	must("state", err)
	_, err = p.In(s).ListSessions(t.Context(), time.Time{}, "", 9)
	must("list", err)
	_, err = p.In(s).Commit(t.Context(), core.Work{Settlements: []core.Settlement{{Token: ds[0].LockToken}}})
	must("commit", err)
	must("settle", settle(s, p, core.Complete, ds[1]))
	must("release", p.In(s).ReleaseSession(t.Context(), l))
	must("delete", s.DeleteEntity(t.Context(), "ns", st.topic.Name))
}

// Holders who wait cost nothing: nobody looks for them as long as nothing comes.
func TestWaitingHoldersAreNotRungInVain(t *testing.T) {
	t.Parallel()
	s := open(t, server(t).URL(), redisstore.Options{})
	p := sessions(t, s)
	sendIn(t, s, p, "x", "1")
	l := accept(t, s, p, "x")
	lockIn(t, s, p, l, 9) // comes back short
	var rings atomic.Int64
	defer p.In(s).Watch(core.WakeFunc(func(core.SessionKey) { rings.Add(1) }))()
	waiting, looks := queue(t, s), make(chan struct{}, 1000)
	send(t, s, waiting, "nobody locks it") // so each look around rings for it
	defer waiting.In(s).Watch(core.WakeFunc(func(core.SessionKey) { looks <- struct{}{} }))()
	for range 4 { // once when it has begun to listen, then at looks around
		<-looks
	}
	if n := rings.Load(); n > 1 { // once when it has begun to listen
		t.Errorf("rung %d times", n)
	}
}

// A lock call that Redis refuses has locked nothing that would have to be unlocked.
func TestARefusedLockInASessionIsNotUndone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := open(t, server.URL(), redisstore.Options{})
	p := sessions(t, s)
	sendIn(t, s, p, "a", "0")
	l := accept(t, s, p, "a")
	ended := l
	ended.Nonce++
	lockIn(t, s, p, l, 0) // the server knows the script now
	if err := server.Client().ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 1}, Session: &ended}); core.CodeOf(err) != core.SessionLockLost {
		t.Fatalf("lock without the session's lock: got %v, want %v", err, core.SessionLockLost)
	}
	if ds := lockIn(t, s, p, l, 1); len(ds) != 1 {
		t.Errorf("then %d messages are locked, want 1", len(ds))
	}
	if info, err := server.Client().Info(t.Context(), "commandstats").Result(); err != nil || !strings.Contains(info, "cmdstat_evalsha:calls=2,") {
		t.Errorf("two calls: got %v and the commands\n%s", err, info)
	}
}

func TestAStateIsRemovedWithoutAMeasurement(t *testing.T) {
	t.Parallel()
	a := newAccount(t, redistest.Start(t, redistest.Options{}))
	s := open(t, a.url, redisstore.Options{})
	p := sessions(t, s)
	p.MaxBytes = 1 << 20
	l := accept(t, s, p.In(s), "s")
	a.set(t, "-smembers") // of the measurement
	if err := p.In(s).SetSessionState(t.Context(), l, []byte("x")); err == nil {
		t.Error("a state was set although nothing can be measured")
	}
	if err := p.In(s).SetSessionState(t.Context(), l, nil); err != nil {
		t.Errorf("remove the state: %v", err)
	}
}
