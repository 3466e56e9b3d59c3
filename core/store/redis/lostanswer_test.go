package redis_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/core/storetest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// forgetful stands between a store and its server, and can lose an answer.
type forgetful struct {
	net.Listener
	server string // the path of its socket

	mu   sync.Mutex
	lose func() // called once the answer to the next script is there, which is not passed on then
	drop bool   // the next script is not passed on
	mark string // with hold: what is sent with this in it is held up, once
	hold func() // until this returns
}

// forget begins one before a server.
func forget(t *testing.T, server *redistest.Server) *forgetful {
	t.Helper()
	path, ok := strings.CutPrefix(server.URL(), "unix://")
	if !ok {
		t.Fatalf("the server listens at %s", server.URL())
	}
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	f := &forgetful{Listener: ln, server: path}
	passConnections(t, ln, f.pass)
	return f
}

// passConnections has pass handle each connection that ln accepts, until the test ends.
func passConnections(t *testing.T, ln net.Listener, pass func(client net.Conn)) {
	t.Helper()
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			passing.Go(func() { pass(client) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		passing.Wait()
	})
}

func (f *forgetful) url() string { return "unix://" + f.Addr().String() }

func (f *forgetful) loseNext(then func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lose = then
}

// pass connects a client until one side ends, or an answer is lost.
func (f *forgetful) pass(client net.Conn) {
	server, err := net.Dial("unix", f.server)
	if err != nil {
		_ = client.Close()
		return
	}
	var lost func() // guarded by mu
	var both sync.WaitGroup
	both.Go(func() {
		defer func() { _ = server.Close() }()
		copyUntil(server, client, func(sent []byte) bool {
			f.holdUp(sent)
			if !bytes.Contains(sent, []byte("EVAL")) {
				return true
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			dropped := f.drop
			lost, f.lose, f.drop = f.lose, nil, false
			return !dropped
		})
	})
	both.Go(func() {
		defer func() { _ = client.Close() }()
		copyUntil(client, server, func([]byte) bool {
			f.mu.Lock()
			then := lost
			f.mu.Unlock()
			if then != nil {
				then()
			}
			return then == nil
		})
	})
	both.Wait()
}

// holdUp waits before something is passed on that is to be held up.
func (f *forgetful) holdUp(sent []byte) {
	f.mu.Lock()
	var hold func()
	if f.hold != nil && bytes.Contains(sent, []byte(f.mark)) {
		hold, f.hold = f.hold, nil
	}
	f.mu.Unlock()
	if hold != nil {
		hold()
	}
}

// copyUntil copies bytes until an end is closed or some are not to be passed.
func copyUntil(to, from net.Conn, passes func([]byte) bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !passes(buf[:n]) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// A connection breaks before a call has reached the server, or before its answer is back. The call
// succeeds either way, and takes effect once.
func TestACallWhoseConnectionBrokeTakesEffectOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	lossy := forget(t, server)
	s := open(t, lossy.url(), redisstore.Options{Prefix: "once:"})
	later := func(body string) *core.Message {
		m := message(body)
		m.ScheduledEnqueueTime = s.Now().Add(time.Hour)
		return m
	}
	st := newStand(t, s, "a")
	loadPublishing(t, s, st)
	send(t, s, queue(t, s), "first") // the server knows the script now
	version := st.version(s)
	for _, c := range []struct {
		name   string
		before func(p core.Partition) []core.Delivery
		call   func(p core.Partition, ds []core.Delivery) error
		want   core.Stats
	}{
		{"append", nil, func(p core.Partition, _ []core.Delivery) error {
			a := p.In(s).Append(t.Context(), [][]*core.Message{{message("x"), message("y")}, {message("z")}})
			if a[0].Err == nil && a[1].Err == nil && !slices.Equal(slices.Concat(a[0].Numbers, a[1].Numbers), []int64{1, 2, 3}) {
				t.Errorf("append: got the numbers %v and %v", a[0].Numbers, a[1].Numbers)
			}
			return cmp.Or(a[0].Err, a[1].Err)
		}, core.Stats{Ready: 3, Enqueued: 3}},
		{"schedule", nil, func(p core.Partition, _ []core.Delivery) error {
			a := p.In(s).Append(t.Context(), [][]*core.Message{{later("x")}})[0]
			if a.Err == nil && !slices.Equal(a.Numbers, []int64{1}) {
				t.Errorf("schedule: got the numbers %v", a.Numbers)
			}
			return a.Err
		}, core.Stats{Scheduled: 1, Enqueued: 1}},
		{"cancel", func(p core.Partition) []core.Delivery {
			if err := p.In(s).Append(t.Context(), [][]*core.Message{{later("x")}})[0].Err; err != nil {
				t.Error(err)
			}
			return nil
		}, func(p core.Partition, _ []core.Delivery) error {
			return p.In(s).Cancel(t.Context(), []int64{1})
		}, core.Stats{Enqueued: 1}},
		{"activate a scheduled message", func(p core.Partition) []core.Delivery {
			if err := p.In(s).Append(t.Context(), [][]*core.Message{{later("x")}})[0].Err; err != nil {
				t.Error(err)
			}
			return nil
		}, func(p core.Partition, _ []core.Delivery) error {
			return p.In(s).Settle(t.Context(), []core.Settlement{{Token: core.NewLockToken(p.Index, 1, 0), Outcome: core.Activate}})[0]
		}, core.Stats{Ready: 1, Enqueued: 2}},
		{"activate a deferred message", func(p core.Partition) []core.Delivery {
			send(t, s, p, "x")
			ds := lock(t, s, p, 1)
			if err := settle(s, p, core.Defer, ds...); err != nil {
				t.Error(err)
			}
			return nil
		}, func(p core.Partition, _ []core.Delivery) error {
			return p.In(s).Settle(t.Context(), []core.Settlement{{Token: core.NewLockToken(p.Index, 1, 0), Outcome: core.Activate}})[0]
		}, core.Stats{Ready: 1, Enqueued: 1}},
		{"complete", func(p core.Partition) []core.Delivery {
			send(t, s, p, "x", "y", "z")
			return lock(t, s, p, 2)
		}, func(p core.Partition, ds []core.Delivery) error { return settle(s, p, core.Complete, ds...) }, core.Stats{Ready: 1, Enqueued: 3}},
		{"abandon", func(p core.Partition) []core.Delivery {
			send(t, s, p, "x")
			return lock(t, s, p, 1)
		}, func(p core.Partition, ds []core.Delivery) error { return settle(s, p, core.Abandon, ds...) }, core.Stats{Ready: 1, Enqueued: 1}},
		{"renew", func(p core.Partition) []core.Delivery {
			send(t, s, p, "x")
			return lock(t, s, p, 1)
		}, func(p core.Partition, ds []core.Delivery) error {
			return p.In(s).Renew(t.Context(), []core.LockToken{ds[0].LockToken})[0].Err
		}, core.Stats{Locked: 1, Enqueued: 1}},
		{"commit", func(p core.Partition) []core.Delivery {
			send(t, s, p, "x")
			return lock(t, s, p, 1)
		}, func(p core.Partition, ds []core.Delivery) error {
			_, err := p.In(s).Commit(t.Context(), core.Work{
				Settlements: []core.Settlement{{Token: ds[0].LockToken, Outcome: core.Complete}}, Messages: []*core.Message{message("y")},
			})
			return err
		}, core.Stats{Ready: 1, Enqueued: 2}},
		{"peek", func(p core.Partition) []core.Delivery {
			send(t, s, p, "x")
			return nil
		}, func(p core.Partition, _ []core.Delivery) error {
			_, err := p.In(s).Peek(t.Context(), core.PeekRequest{Max: 1})
			return err
		}, core.Stats{Ready: 1, Enqueued: 1}},
		{"publish", nil, func(core.Partition, []core.Delivery) error {
			return st.publish(s, version, to(message("p"), st.at("a")))
		}, core.Stats{}},
	} {
		for _, dropped := range []bool{false, true} {
			p := queue(t, s)
			var ds []core.Delivery
			if c.before != nil {
				ds = c.before(p)
			}
			lossy.mu.Lock()
			if lossy.drop = dropped; !dropped {
				lossy.lose = func() {}
			}
			lossy.mu.Unlock()
			if err := c.call(p, ds); err != nil {
				t.Errorf("%s, request lost %v: %v", c.name, dropped, err)
			}
			lossy.mu.Lock()
			if lossy.drop || lossy.lose != nil {
				t.Errorf("%s: nothing was lost", c.name)
			}
			lossy.drop, lossy.lose = false, nil
			lossy.mu.Unlock()
			stats, err := storetest.Stats(t.Context(), s, p)
			if stats.Bytes = 0; err != nil || stats != c.want {
				t.Errorf("%s, request lost %v: got %+v, %v, want %+v", c.name, dropped, stats, err, c.want)
			}
		}
	}
	stats, err := storetest.Stats(t.Context(), s, st.at("a"))
	if err != nil || stats.Ready != 2 {
		t.Errorf("published: got %+v, %v, want 2 ready", stats, err)
	}
}

// The answer to an append, which also tells whether another gateway waits, is lost.
func TestAnAppendWhoseAnswerWasLostWakesOtherGateways(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	lossy := forget(t, server)
	o := redisstore.Options{Prefix: "wakes:"}
	a, b := open(t, lossy.url(), o), open(t, server.URL(), o)
	p := queue(t, a)
	watch(t, b, p, 0)
	lossy.loseNext(func() {})
	send(t, a, p, "x")
	if n := callsOf(t, server, "spublish"); n != 1 {
		t.Errorf("the doorbell was rung %d times, want once", n)
	}
	if got := lock(t, b, p, 9); !slices.Equal(texts(got), []string{"x"}) {
		t.Errorf("got %q, want x", texts(got))
	}
}

// A call on dead letters first sweeps the main queue, and the answer to that is lost.
func TestACallOnDeadLettersOutlivesALostSweep(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	lossy := forget(t, server)
	s := open(t, lossy.url(), redisstore.Options{Prefix: "dead:"})
	p := queue(t, s)
	send(t, s, p, "x")
	if err := settle(s, p, core.DeadLetterOutcome, lock(t, s, p, 1)...); err != nil {
		t.Fatal(err)
	}
	p.Sub = core.DeadLetter
	p = p.In(s)
	lossy.loseNext(func() {})
	ds := lock(t, s, p, 1)
	lossy.loseNext(func() {})
	if err := settle(s, p, core.Complete, ds...); err != nil {
		t.Errorf("complete: %v", err)
	}
	if stats, err := storetest.Stats(t.Context(), s, p); err != nil || stats.Ready+stats.Locked != 0 {
		t.Errorf("left: got %+v, %v, want nothing", stats, err)
	}
}

// A server that has restarted does not know the script that leaves the receipt of an append. The gateway notices
// the restart only when it sends the append.
func TestAnAppendToARestartedServerTakesEffectOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	lossy := forget(t, server)
	s := open(t, lossy.url(), redisstore.Options{Prefix: "restarted:"})
	p := queue(t, s)
	batch := make([]*core.Message, 20)
	for i := range batch {
		batch[i] = message(fmt.Sprint(i))
	}
	for i := range 4 {
		if i%2 == 1 { // as a restart does
			if err := errors.Join(server.Client().ScriptFlush(t.Context()).Err(), server.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()); err != nil {
				t.Fatal(err)
			}
			lossy.loseNext(func() {})
		}
		a := p.In(s).Append(t.Context(), [][]*core.Message{batch})[0]
		for k, n := range a.Numbers {
			if want := core.SequenceNumber(p.Index, int64(i*len(batch)+k+1)); n != want {
				t.Errorf("append %d: message %d has the number %d, want %d", i, k, n, want)
			}
		}
		if stats, err := storetest.Stats(t.Context(), s, p); err != nil || a.Err != nil || stats.Ready != int64((i+1)*len(batch)) {
			t.Errorf("append %d: got %v, then %d messages, %v, want %d", i, a.Err, stats.Ready, err, (i+1)*len(batch))
		}
	}
}

// A forwarder locks the messages of a queue for another time than its receivers. Its calls must not replace the
// receipts of the senders to that queue.
func TestCallsUnderAnotherPolicyKeepTheReceiptOfALostCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	lossy := forget(t, server)
	s := open(t, lossy.url(), redisstore.Options{Prefix: "policies:"})
	p := queue(t, s)
	forwarder := p
	forwarder.LockDuration, forwarder.BrokerLocks = time.Hour, true
	forwarder = forwarder.In(s)
	send(t, s, p, "before")
	ds := lock(t, s, forwarder, 1)
	lossy.loseNext(func() {
		if err := settle(s, forwarder, core.Complete, ds...); err != nil {
			t.Errorf("complete: %v", err)
		}
	})
	send(t, s, p, "lost")
	if stats, err := storetest.Stats(t.Context(), s, p); err != nil || stats.Ready != 1 {
		t.Errorf("%d messages are stored, %v, want 1", stats.Ready, err)
	}
}

// In a session a message comes back under the token that it had: to end its lock
// again because the answer was lost would end that of its next delivery.
func TestALostAnswerEndsNoLaterLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	lossy := forget(t, server)
	o := redisstore.Options{Prefix: "lost:"}.WithBlocksFrom(1)
	s, other := open(t, lossy.url(), o), open(t, server.URL(), o)
	for _, c := range []struct {
		outcome core.Outcome
		back    bool // the message comes back
	}{
		{core.Abandon, true},
		{core.Release, true},
		{core.Complete, false},
	} {
		p := sessions(t, s)
		sendIn(t, s, p, "a", "0", "1")
		l := accept(t, s, p, "a")
		ds := lockIn(t, s, p, l, 2)
		if err := settle(s, p, core.Complete, ds[0]); err != nil { // the server knows the script now
			t.Fatal(err)
		}
		d := ds[1]
		lossy.loseNext(func() {
			ds, _, err := p.In(other).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 1}, Session: &l})
			if err != nil || len(ds) > 0 != c.back || c.back && ds[0].LockToken != d.LockToken {
				t.Errorf("%v: the next delivery: got %v, %v", c.outcome, ds, err)
			}
		})
		if err := settle(s, p, c.outcome, d); err != nil {
			t.Errorf("%v whose answer was lost: %v", c.outcome, err)
		}
		if c.back {
			if err := settle(other, p, core.Complete, d); err != nil {
				t.Errorf("%v: complete the next delivery: %v", c.outcome, err)
			}
		}
	}
}

// The answer to a lock call in a session is lost, once or several times. The holder then gets the messages
// that these calls have locked, before later ones, and each once.
func TestALostAnswerDelaysMessagesOfASession(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	lossy := forget(t, server)
	s := open(t, lossy.url(), redisstore.Options{Prefix: "lost:"})
	p := sessions(t, s)
	sendIn(t, s, p, "a", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
	l := accept(t, s, p, "a")
	first := lockIn(t, s, p, l, 3) // the server knows the script now
	abandoned := first[1]
	if err := settle(s, p, core.Abandon, abandoned); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range 3 { // the second call and the third lose the answer to what undoes the call before, and repeat that
		lossy.loseNext(func() {})
		ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 4}, Session: &l})
		if (err == nil) != (i == 1) {
			t.Fatalf("call %d, without an answer: got %v, %v", i, ds, err)
		}
		for _, d := range ds {
			got = append(got, string(d.Body.Bytes))
		}
	}
	for range 4 {
		for _, d := range lockIn(t, s, p, l, 2) {
			got = append(got, string(d.Body.Bytes))
		}
	}
	if want := []string{"1", "3", "4", "5", "6", "7", "8", "9"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := settle(s, p, core.Complete, first[0]); err != nil {
		t.Errorf("complete a message that was delivered before: %v", err)
	}
}

// The receiver whose lock call got no answer does not call again: another gateway takes its session over. The
// messages of the lost call are available there all the same.
func TestMessagesOfALostCallFollowATakeOver(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	lossy := forget(t, server)
	o := redisstore.Options{Prefix: "lost:"}
	s, other := open(t, lossy.url(), o), open(t, server.URL(), o)
	p := sessions(t, s)
	sendIn(t, s, p, "a", "0", "1", "2")
	former, _, _, err := p.In(s).AcceptSession(t.Context(), core.SessionRequest{ID: "a", Mode: core.NonExclusive})
	if err != nil {
		t.Fatal(err)
	}
	delivered := lockIn(t, s, p, former, 1) // the server knows the script now
	lossy.loseNext(func() {})
	if ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 1}, Session: &former}); err == nil {
		t.Fatalf("without an answer: got %v", ds)
	}
	l, _, _, err := p.In(other).AcceptSession(t.Context(), core.SessionRequest{ID: "a", TakeOver: former.Token()})
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the messages of the lost call are available", func() bool {
		stats, err := storetest.Stats(t.Context(), other, p)
		return err == nil && stats.Ready == 2
	})
	for i, d := range lockIn(t, other, p, l, 3) {
		if got := string(d.Body.Bytes); got != fmt.Sprint(1+i) || d.DeliveryCount != 0 {
			t.Errorf("got %s, delivered %d times before, want %d, not delivered before", got, d.DeliveryCount, 1+i)
		}
	}
	if err := settle(other, p, core.Complete, delivered[0]); err != nil {
		t.Errorf("complete what the former holder received: %v", err)
	}
}

// Messages are locked and cannot be read, because Redis refuses the command. The next calls deliver them, in
// a session before later ones.
func TestMessagesThatCouldNotBeReadAreDelivered(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := open(t, server.URL(), redisstore.Options{Prefix: "unread:"}.WithBlocksFrom(1))
	const many = 12 // more than a script returns itself
	all := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"}
	p := sessions(t, s)
	sendIn(t, s, p, "a", all...)
	l := accept(t, s, p, "a")
	lock := func(r core.LockRequest) ([]core.Delivery, error) {
		ds, _, err := p.In(s).Lock(t.Context(), r)
		return ds, err
	}
	for _, c := range []struct {
		name string
		r    core.LockRequest
	}{
		{"available", core.LockRequest{Most: core.Most{Messages: many}}},
		{"by number", core.LockRequest{}},
		{"deferred", core.LockRequest{Deferred: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.r.Session = &l
			if c.r.Messages == 0 {
				ds := lockIn(t, s, p, l, many)
				outcome := core.Release
				if c.r.Deferred {
					outcome = core.Defer
				}
				for _, d := range ds {
					c.r.Numbers = append(c.r.Numbers, d.SequenceNumber)
					if err := settle(s, p, outcome, d); err != nil {
						t.Fatal(err)
					}
				}
			}
			may := func(xrange string) {
				if err := server.Client().Do(t.Context(), "ACL", "SETUSER", "default", xrange).Err(); err != nil {
					t.Fatal(err)
				}
			}
			may("-xrange")
			ds, err := lock(c.r)
			may("+xrange")
			if err == nil {
				t.Fatalf("without permission to read: got %d messages", len(ds))
			}
			if ds, err = lock(c.r); err != nil || len(ds) != many {
				t.Fatalf("got %d messages, %v, want %d", len(ds), err, many)
			}
			for i, d := range ds {
				if got := string(d.Body.Bytes); got != all[i] {
					t.Errorf("message %d is %s, want %s", i, got, all[i])
				}
				if err := settle(s, p, core.Release, d); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A session that was locked by a call without an answer is free for the next call, for one that names it and for
// one that takes any.
func TestASessionWhoseLockWasNotAnsweredIsFree(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	lossy := forget(t, server)
	s := open(t, lossy.url(), redisstore.Options{Prefix: "lost:", Patience: 1}) // no call is sent again
	for _, mode := range []core.SessionMode{core.Exclusive, core.NonExclusive} {
		for _, first := range []bool{false, true} {
			p := sessions(t, s)
			sendIn(t, s, p, "a", "0")
			if err := p.In(s).ReleaseSession(t.Context(), accept(t, s, p, "a")); err != nil { // the server knows the scripts now
				t.Fatal(err)
			}
			r := core.SessionRequest{ID: "a", Mode: mode}
			if first {
				r = core.SessionRequest{Next: true, Mode: mode}
			}
			lossy.loseNext(func() {})
			if l, ok, _, err := p.In(s).AcceptSession(t.Context(), r); !errors.Is(err, core.Busy) {
				t.Errorf("%v, next %v, without an answer: got %v, %v, %v, want %v", mode, first, l, ok, err, core.Busy)
			}
			l, ok, _, err := p.In(s).AcceptSession(t.Context(), r)
			if err != nil || !ok {
				t.Errorf("%v, next %v, again: got %v, %v", mode, first, ok, err)
				continue
			}
			if ds := lockIn(t, s, p, l, 1); len(ds) != 1 || ds[0].DeliveryCount != 0 {
				t.Errorf("%v, next %v: got %v, want the message, not delivered before", mode, first, ds)
			}
			if _, _, _, err := p.In(s).AcceptSession(t.Context(), r); r.Next && err != nil || !r.Next && !errors.Is(err, core.SessionLocked) {
				t.Errorf("%v, next %v: the lock of the second call ended: got %v", mode, first, err)
			}
		}
	}
}

// Whoever does not learn whether it has deleted a namespace hears of it all the
// same, as the others do: whether the answer was lost, or the server was so slow
// that nobody waited for it any more.
func TestNamespaceDeletionIsNoticedAfterALostAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	lossy := forget(t, server)
	for _, c := range []struct {
		name    string
		trouble func() context.Context // what the call is made under
	}{
		{"lost", func() context.Context {
			lossy.loseNext(func() {})
			return t.Context()
		}},
		{"slow", func() context.Context {
			began := make(chan struct{})
			go func() {
				close(began)
				_ = server.Client().Eval(t.Context(), "for i = 1, 3e7 do end", nil).Err()
			}()
			<-began
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			t.Cleanup(cancel)
			return ctx
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, lossy.url(), redisstore.Options{Prefix: c.name + ":"})
			told := make(chan string, 1000)
			t.Cleanup(s.WatchNamespaces(func(name string) { told <- name }))
			createNamespace(t, s, "first", "first")
			if err := s.DeleteNamespace(t.Context(), "first"); err != nil { // the server knows the script now
				t.Fatal(err)
			}
			deadline := time.Now().Add(patience)
			for i := 0; time.Now().Before(deadline); i++ {
				name := fmt.Sprint("n", i)
				createNamespace(t, s, name, name)
				for len(told) > 0 {
					<-told
				}
				if err := s.DeleteNamespace(c.trouble(), name); err == nil {
					continue // it went well after all
				}
				heard, gone := false, false
				look := func() bool {
					heard = heard || len(told) > 0
					for len(told) > 0 {
						<-told
					}
					_, err := s.Namespace(t.Context(), name)
					gone = gone || core.CodeOf(err) == core.NotFound
					return gone && heard
				}
				if eventually.Within(2*time.Second, look) { // else it was not deleted, or is slow
					return
				}
				if gone && !eventually.Within(eventually.Bound, look) {
					t.Fatalf("%s is gone, and nobody has heard", name)
				}
				if gone {
					return
				}
			}
			t.Fatal("nothing was deleted without an answer")
		})
	}
}

// Another gateway may note when an entity was last used while its namespace is
// deleted, and be slow about it.
func TestWhatIsUsedWhileItIsDeletedLeavesNoKeys(t *testing.T) {
	t.Parallel()
	names := prefix()
	slow := forget(t, server(t))
	o := redisstore.Options{Prefix: names}
	here, there := open(t, server(t).URL(), o), open(t, slow.url(), o)
	createNamespace(t, here, "suite", "n1")
	settleIn(t, here, "n1", 1, 0)
	slow.mu.Lock()
	slow.mark, slow.hold = names+"{ct:n1}a", func() {
		if err := here.DeleteNamespace(t.Context(), "suite"); err != nil {
			t.Error(err)
		}
		awaitSealed(t, server(t).URL(), names, 1)
	}
	slow.mu.Unlock()
	if err := there.TouchEntities(t.Context(), "n1", map[string]time.Time{"q0": there.Now()}); err != nil {
		t.Fatal(err)
	}
	awaitSealed(t, server(t).URL(), names, 1)
}
