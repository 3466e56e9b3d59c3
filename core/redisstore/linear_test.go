package redisstore_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/redisstore"
	"github.com/crosstown-mq/crosstown/core/redisstore/redistest"
)

// faultsVariable is how often the server fails in a history, instead of defaultFaults.
const (
	faultsVariable = "REDISSTORE_FAULTS"
	defaultFaults  = 10
)

// Of each history.
const (
	linearStores  = 3 // the gateways
	linearClients = 6
	quietCalls    = 120             // about how many calls there are between two faults
	checkTimeout  = 2 * time.Minute // a check takes a second or so
)

// forever is when a call ends whose outcome stays unknown.
const forever = math.MaxInt64

// history is what clients on several stores saw of one partition, on one server
// that fails again and again.
type history struct {
	*testing.T
	server *redistest.Server
	stores []*redisstore.Store
	p      core.Partition
	began  time.Time
	calls  atomic.Int64 // answered
	faults atomic.Int64
	bodies atomic.Int64
	fakes  atomic.Uint64 // nonces of locks that nobody knows
	stored atomic.Int64  // messages stored but not completed, as far as known

	mu     sync.Mutex
	steps  []porcupine.Operation
	breaks [][2]int64 // when connections broke: from, to
}

// newHistory begins one of a partition with locks that outlive it.
func newHistory(t *testing.T, sessions bool) *history {
	h := &history{T: t, server: redistest.Start(t, redistest.Options{AOF: "always"}), began: time.Now()}
	for range linearStores {
		h.stores = append(h.stores, open(t, h.server.URL(), redisstore.Options{Prefix: "linear:"}))
	}
	h.p = queue(t, h.stores[0])
	h.p.LockDuration, h.p.MaxDeliveryCount, h.p.Sessions = time.Hour, 0, sessions
	return h
}

// now is the time on the history's clock, in ns.
func (h *history) now() int64 { return time.Since(h.began).Nanoseconds() }

// note records a call that came at a time, and ends now.
func (h *history) note(client int, call int64, s step, a answer) {
	end := h.now()
	if a == unknown {
		end = forever
	} else {
		h.calls.Add(1)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps = append(h.steps, porcupine.Operation{ClientId: client, Input: s, Call: call, Return: end})
}

// fake is a nonce for a lock that was perhaps taken, and that nobody knows.
func (h *history) fake() uint64 { return h.fakes.Add(1) }

// broken reports whether connections broke since a time.
func (h *history) broken(since int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.breaks) > 0 && h.breaks[len(h.breaks)-1][1] >= since
}

// answerOf says what an error tells of a call; ok is false if it never reached
// the server.
func answerOf(err error) (a answer, ok bool) {
	if err == nil {
		return done, true
	}
	switch core.CodeOf(err) {
	case core.LockLost, core.SessionLockLost, core.SessionLocked:
		return refused, true
	}
	if failed, is := errors.AsType[*net.OpError](err); is && failed.Op == "dial" {
		return 0, false
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		if redis.HasErrorPrefix(cause, "LOADING") {
			return 0, false
		}
	}
	return unknown, true
}

// play has clients call, while the server fails, and compares what they saw
// with a sequential partition. finish looks at what is there in the end.
func (h *history) play(call func(client int, s *redisstore.Store, random *rand.Rand), finish func(s *redisstore.Store)) {
	faults := defaultFaults
	if text := os.Getenv(faultsVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			h.Fatalf("%s: %v", faultsVariable, err)
		}
		faults = n
	}
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	h.Logf("repeat with -seed=%d %s=%d", first, faultsVariable, faults)

	var clients sync.WaitGroup
	stop := make(chan struct{})
	for i := range linearClients {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(first, uint64(i)))
			for {
				select {
				case <-stop:
					return
				default:
					call(i, h.stores[i%linearStores], random)
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(first, math.MaxUint64))
	for range faults {
		h.quiet(quietCalls/2 + random.Int64N(quietCalls))
		h.fail(random)
	}
	h.quiet(quietCalls)
	close(stop)
	clients.Wait()
	finish(h.stores[0])
	h.check()
}

// quiet waits until so many calls were answered.
func (h *history) quiet(calls int64) {
	until := h.calls.Load() + calls
	for deadline := time.Now().Add(patience); h.calls.Load() < until && !h.Failed(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(deadline) {
			h.Errorf("not even %d calls were answered in %v", calls, patience)
			return
		}
	}
}

// fail ends the server as a crash would and starts it again, or only breaks all
// connections, of which some have answers under way.
func (h *history) fail(random *rand.Rand) {
	from := h.now()
	kill := random.IntN(2) == 0
	if kill {
		h.server.Kill()
	} else if err := h.server.Client().Do(h.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		h.Errorf("client kill: %v", err)
	}
	h.mu.Lock()
	h.breaks = append(h.breaks, [2]int64{from, h.now()})
	h.mu.Unlock()
	if kill {
		h.server.Restart(h.T)
	}
	h.faults.Add(1)
}

// check compares the history with a sequential partition.
func (h *history) check() {
	h.Helper()
	told, open := h.told()
	began := time.Now()
	result, info := porcupine.CheckOperationsVerbose(sequentially, told, checkTimeout)
	h.Logf("%d calls, %d of unknown outcome, %d of those perhaps carried out: %s after %v",
		len(h.steps), count(h.steps), open, result, time.Since(began).Round(time.Millisecond))
	if result == porcupine.Ok {
		return
	}
	h.Errorf("the history is not that of a sequential partition: %s", result)
	path := filepath.Join(os.TempDir(), fmt.Sprintf("history-%d.html", os.Getpid()))
	if err := porcupine.VisualizePath(sequentially, info, path); err != nil {
		h.Errorf("draw it: %v", err)
	}
	h.Logf("drawn in %s", path)
}

func count(steps []porcupine.Operation) (n int) {
	for _, o := range steps {
		if o.Return == forever {
			n++
		}
	}
	return n
}

// sighting is when a message was first seen.
type sighting struct{ n, at int64 }

// told is the history with as little unknown as what was seen allows; open is
// how many calls may have been carried out.
func (h *history) told() (told []porcupine.Operation, open int) {
	seen := map[string]sighting{}
	var left []delivered // in the end
	for _, o := range h.steps {
		var got []delivered
		switch s := o.Input.(type) {
		case locking:
			got = s.got
		case taking:
			got = s.got
		case peeking:
			got, left = s.got, s.got
		}
		for _, d := range got {
			if was, ok := seen[d.body]; !ok || o.Return < was.at {
				seen[d.body] = sighting{d.n, o.Return}
			}
		}
	}
	for _, o := range h.steps {
		if o.Return == forever {
			switch s := o.Input.(type) {
			case appending:
				// It was carried out before its messages were seen, or never.
				first, at := firstOf(s, seen)
				if first == 0 {
					continue
				}
				s.first, o.Return, o.Input = first, at, appending{s.bodies, s.sessions, first}
			case settling:
				// What is left in the end was not completed.
				if s.outcome == core.Complete && slices.ContainsFunc(left, func(d delivered) bool { return d.n == s.n }) {
					continue
				}
			}
			open++
		}
		told = append(told, o)
	}
	return told, open
}

// firstOf is the number of a group's first message if any of it was seen, and
// when that was at first.
func firstOf(a appending, seen map[string]sighting) (first, at int64) {
	at = forever
	for i, body := range a.bodies {
		if s, ok := seen[body]; ok {
			first, at = s.n-int64(i), min(at, s.at)
		}
	}
	return first, at
}

// deliveredOf is what a history keeps of deliveries.
func deliveredOf(ds []core.Delivery) []delivered {
	var got []delivered
	for _, d := range ds {
		_, n := core.SplitSequenceNumber(d.SequenceNumber)
		got = append(got, delivered{n, string(d.Body.Bytes), d.DeliveryCount})
	}
	return got
}

// append stores a group of messages, of these sessions if any.
func (h *history) append(client int, s *redisstore.Store, count int, sessions []string) {
	a := appending{sessions: sessions}
	var group []*core.Message
	for i := range count {
		body := strconv.FormatInt(h.bodies.Add(1), 10)
		m := message(body)
		if sessions != nil {
			m.SessionID = sessions[i]
		}
		a.bodies, group = append(a.bodies, body), append(group, m)
	}
	call := h.now()
	got := s.Append(h.Context(), h.p, [][]*core.Message{group})[0]
	what, ok := answerOf(got.Err)
	if !ok {
		rest()
		return
	}
	if what == done {
		a.first = got.Numbers[0]
		for i, n := range got.Numbers {
			if n != a.first+int64(i) {
				h.Errorf("a group got the numbers %v", got.Numbers)
			}
		}
		h.stored.Add(int64(count))
	}
	h.note(client, call, a, what)
}

// settle ends a lock and reports whether it is known to have ended.
func (h *history) settle(client int, s *redisstore.Store, token core.LockToken, o core.Outcome) bool {
	call := h.now()
	err := s.Settle(h.Context(), h.p, []core.Settlement{{Token: token, Outcome: o}})[0]
	a, ok := answerOf(err)
	switch {
	case !ok:
		a = unknown // the store tries twice: only the second try did not reach the server
		rest()
	case a == refused && h.broken(call):
		a = unsure // it may be the second try that was refused
	}
	h.note(client, call, settling{token.Number(), token.Nonce(), o, a}, a)
	if o == core.Complete && a == done {
		h.stored.Add(-1)
	}
	return a != unknown
}

// renew asks whether a lock still holds.
func (h *history) renew(client int, s *redisstore.Store, token core.LockToken) {
	call := h.now()
	if a, ok := answerOf(s.Renew(h.Context(), h.p, []core.LockToken{token})[0].Err); ok && a != unknown {
		h.note(client, call, renewing{token.Number(), token.Nonce(), a}, a)
	}
}

// count counts the messages.
func (h *history) count(client int, s *redisstore.Store) {
	call := h.now()
	if stats, err := s.Stats(h.Context(), h.p); err == nil {
		h.note(client, call, counting{stats.Ready, stats.Locked}, done)
	}
}

// peek looks at all that is there. Nobody may call meanwhile: it takes several steps.
func (h *history) peek(s *redisstore.Store) {
	h.Helper()
	call := h.now()
	ds, err := s.Peek(h.Context(), h.p, 0, math.MaxInt32)
	if err != nil {
		h.Fatalf("peek: %v", err)
	}
	h.note(0, call, peeking{deliveredOf(ds)}, done)
}

// rest is a pause after the server was not reached.
func rest() { time.Sleep(2 * time.Millisecond) }

// bag holds what clients share, so that what one has taken another goes on with.
type bag[T any] struct {
	mu    sync.Mutex
	items []T
}

func (b *bag[T]) put(items ...T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items = append(b.items, items...)
}

// pick returns any, and leaves it there or not.
func (b *bag[T]) pick(random *rand.Rand, leave bool) (one T, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.items) == 0 {
		return one, false
	}
	i := random.IntN(len(b.items))
	one = b.items[i]
	if !leave {
		b.items = slices.Delete(b.items, i, i+1)
	}
	return one, true
}

// anyOutcome ends a lock in one of the ways that change the queue alone.
func anyOutcome(random *rand.Rand) core.Outcome {
	return [...]core.Outcome{core.Complete, core.Complete, core.Complete, core.Abandon, core.Release}[random.IntN(5)]
}

func TestAQueueIsLinearizableUnderFaults(t *testing.T) {
	t.Parallel()
	h := newHistory(t, false)
	var tokens bag[core.LockToken]
	h.play(func(client int, s *redisstore.Store, random *rand.Rand) {
		switch choice := random.IntN(100); {
		case choice < 25 && h.stored.Load() < 30+2*h.faults.Load():
			h.append(client, s, 1+random.IntN(3), nil)
		case choice < 55:
			tokens.put(h.lock(client, s, 1+random.IntN(3))...)
		case choice < 88:
			// Some are settled twice.
			if token, ok := tokens.pick(random, random.IntN(10) == 0); ok && !h.settle(client, s, token, anyOutcome(random)) && random.IntN(2) == 0 {
				tokens.put(token)
			}
		case choice < 94:
			if token, ok := tokens.pick(random, true); ok {
				h.renew(client, s, token)
			}
		default:
			h.count(client, s)
		}
	}, func(s *redisstore.Store) {
		h.count(0, s)
		h.peek(s)
		h.lock(0, s, 1000)
		h.count(0, s)
	})
}

// lock claims messages and returns their tokens.
func (h *history) lock(client int, s *redisstore.Store, limit int) []core.LockToken {
	l := locking{limit: limit, nonce: h.fake()}
	call := h.now()
	ds, _, err := s.Lock(h.Context(), h.p, limit)
	a, ok := answerOf(err)
	if !ok {
		rest()
		return nil
	}
	l.got, l.answer = deliveredOf(ds), a
	var tokens []core.LockToken
	for _, d := range ds {
		if l.nonce = d.LockToken.Nonce(); d.LockToken.Nonce() != ds[0].LockToken.Nonce() {
			h.Error("messages were locked in several steps")
		}
		tokens = append(tokens, d.LockToken)
	}
	h.note(client, call, l, a)
	return tokens
}
