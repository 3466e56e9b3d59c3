// Package linear checks that a partition of a store is linearizable: the answers to concurrent
// clients must be possible answers to calls that run one after the other, each at a time between
// its beginning and its answer. Clients make random calls while the store fails repeatedly, and
// porcupine compares their history with a sequential partition.
package linear

import (
	"cmp"
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

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

type Subject struct {
	// Each function of Stores returns a gateway's store, which may be a new one after a failure.
	Stores []func() core.Store
	// Break makes the store fail while calls are in progress. It returns a function that repairs
	// the store, or nil if the store recovers by itself. Without Break the store does not fail.
	Break func(random *rand.Rand) (repair func())
	// FailOver, if Break is nil, replaces the server by its replica. It first disconnects the
	// replica and calls unreplicated, whose writes the replica does not get. No client calls
	// meanwhile.
	FailOver func(unreplicated func())
	// Rounds is the number of histories; 0 means defaultRounds.
	Rounds int
	// EndsLinks means that the repair of the store ends the locks of sessions.
	EndsLinks bool
	// Ready waits until all stores answer after a failure. nil: they answer immediately.
	Ready func(tb testing.TB)
	// Seed is the seed of the first history; 0 means a random one.
	Seed uint64
}

// RoundsVariable is an environment variable that replaces Subject.Rounds.
const (
	RoundsVariable = "LINEAR_ROUNDS"
	defaultRounds  = 10
)

// The size of a history. Short histories are checked quickly, long ones may take very long.
const (
	clientCount  = 4
	faultCount   = 3
	quietCalls   = 100             // about how many calls there are between two failures
	checkTimeout = 5 * time.Second // most checks take milliseconds, but one in a hundred would take minutes
)

// forever is the end of a call whose outcome is unknown.
const forever = math.MaxInt64

type player struct {
	*testing.T
	Subject
	dice     uint64
	entities int
}

func Queue(t *testing.T, s Subject) {
	play(t, s, func(p *player) bool { return p.history(false).playQueue() })
}

// Clearing checks Clear. The store does not fail, because clients could then not know whether a
// message was never stored, or was cleared before they saw it.
func Clearing(t *testing.T, s Subject) {
	s.Break = nil
	play(t, s, func(p *player) bool {
		h := p.history(false)
		h.clears = true
		return h.playQueue()
	})
}

func play(t *testing.T, s Subject, round func(p *player) (conclusive bool)) {
	t.Helper()
	rounds := cmp.Or(s.Rounds, defaultRounds)
	if text := os.Getenv(RoundsVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", RoundsVariable, err)
		}
		rounds = n
	}
	p := &player{T: t, Subject: s, dice: s.Seed}
	if p.dice == 0 {
		p.dice = uint64(time.Now().UnixNano())
	}
	open := 0
	for conclusive := 0; conclusive < rounds && !t.Failed(); p.dice++ {
		if round(p) {
			conclusive++
		} else if open++; open > rounds {
			t.Errorf("the checker did not finish %d histories, although it had %v for each", open, checkTimeout)
		}
	}
}

type history struct {
	*player
	p      core.Partition
	began  time.Time
	clears bool
	first  []string                              // nil: none
	lose   func(s core.Store, random *rand.Rand) // makes a call that waits for no replica, as the client nobody
	faults atomic.Int64
	bodies atomic.Int64
	fakes  atomic.Uint64 // for nonces of locks that no client knows
	known  atomic.Int64  // calls whose outcome is known
	enough atomic.Int64  // clients pause while known is greater than this; each failure raises it
	active atomic.Int64  // clients that may be calling
	stored atomic.Int64  // about how many messages are stored and not completed

	mu     sync.Mutex
	calls  []call
	breaks []span
}

func (p *player) history(sessions bool) *history {
	p.Helper()
	p.entities++
	name := fmt.Sprint("linear", p.entities)
	e, err := p.Stores[0]().CreateEntity(p.Context(), core.Entity{
		Namespace: "ns", Name: name, ID: name, Partitions: 1, Settings: core.DefaultSettings(core.Queue),
	}, core.NamespaceQuotas{})
	if err != nil {
		p.Fatalf("create entity: %v", err)
	}
	h := &history{player: p, p: e.Partition(0, core.Main), began: time.Now()}
	h.p.LockDuration, h.p.MaxDeliveryCount, h.p.Sessions = time.Hour, 0, sessions
	return h
}

type span struct{ from, to int64 }

func (s span) overlaps(t span) bool { return s.from <= t.to && t.from <= s.to }

type call struct {
	span
	client int
	step   step
	answer answer
}

func (h *history) now() int64 { return time.Since(h.began).Nanoseconds() }

// nobody is the client of calls that are lost with a server. The history does not contain them.
const nobody = -1

// note adds a call that began at from and ends now.
func (h *history) note(client int, from int64, s step, a answer) {
	if client == nobody {
		return
	}
	c := call{span{from, h.now()}, client, s, a}
	if a < unsure {
		h.known.Add(1)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, c)
}

// fake returns a nonce for a lock that may exist, but that no client knows.
func (h *history) fake() uint64 { return h.fakes.Add(1) }

func answerOf(err error) answer {
	if err == nil {
		return done
	}
	switch core.CodeOf(err) {
	case core.LockLost, core.SessionLockLost, core.SessionLocked:
		return refused
	}
	time.Sleep(20 * time.Millisecond) // so that few calls are in progress when connections break
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		return unheard
	}
	return unknown
}

// play runs the clients, reads the final contents with finish, and checks the history. conclusive
// is false if the check takes too long.
func (h *history) play(call func(client int, s core.Store, random *rand.Rand), finish func(s core.Store)) (conclusive bool) {
	h.Logf("repeat with -seed=%d %s=1", h.dice, RoundsVariable)
	h.awake()
	h.append(0, h.Stores[0](), 1, h.first)
	for _, s := range h.Stores {
		h.look(s(), 1) // a store that has not seen a message yet would lock only one at a time
	}
	var clients sync.WaitGroup
	ended := make(chan struct{})
	stop := sync.OnceFunc(func() {
		close(ended)
		clients.Wait()
	})
	defer stop()
	for i := range clientCount {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(h.dice, uint64(i)))
			for {
				select {
				case <-ended:
					return
				default:
					h.active.Add(1)
					if h.known.Load() <= h.enough.Load() { // a long history cannot be checked
						call(i, h.Stores[i%len(h.Stores)](), random)
						h.active.Add(-1)
						continue
					}
					h.active.Add(-1)
					time.Sleep(50 * time.Microsecond)
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(h.dice, math.MaxUint64))
	for range faultCount {
		h.quiet(quietCalls/2 + random.Int64N(quietCalls))
		if h.Break != nil {
			h.fail(random)
		} else if h.FailOver != nil {
			h.failOver(random)
		}
	}
	h.quiet(quietCalls)
	stop()
	h.awake()
	finish(h.Stores[0]())
	return h.check()
}

func (h *history) awake() {
	h.Helper()
	if h.Ready != nil {
		h.Ready(h.T)
	}
}

func (h *history) quiet(calls int64) {
	until := h.known.Load() + calls
	h.enough.Store(until)
	if !eventually.Within(eventually.Bound, func() bool { return h.known.Load() >= until || h.Failed() }) {
		h.Errorf("fewer than %d calls were answered within %v", calls, eventually.Bound)
	}
}

func (h *history) fail(random *rand.Rand) {
	h.enough.Add(quietCalls) // so that some calls are in progress
	from := h.now()
	repair := h.Break(random)
	h.mu.Lock()
	h.breaks = append(h.breaks, span{from, h.now()})
	h.mu.Unlock()
	if repair != nil {
		repair()
	}
	if h.EndsLinks && h.p.Sessions {
		h.note(clientCount, from, reopening{}, done)
	}
	h.faults.Add(1)
}

// failOver replaces the server while no client calls. Nothing that was acknowledged may be lost,
// except locks and their ends.
func (h *history) failOver(random *rand.Rand) {
	h.enough.Store(-1)
	if !eventually.Within(eventually.Bound, func() bool { return h.active.Load() == 0 }) {
		h.Error("the clients did not pause in time")
	}
	h.FailOver(func() {
		if random.IntN(3) == 0 {
			h.append(clientCount, h.Stores[0](), 1, h.first) // waits for the replica, which does not answer
		} else {
			h.lose(h.Stores[0](), random)
		}
	})
	h.awake()
}

func (h *history) check() (conclusive bool) {
	h.Helper()
	told, open := h.told()
	began := time.Now()
	result, info := porcupine.CheckOperationsVerbose(sequentially, told, checkTimeout)
	h.Logf("%d calls, %d of them of unknown outcome: %s after %v", len(told), open, result, time.Since(began).Round(time.Millisecond))
	if result != porcupine.Illegal {
		return result == porcupine.Ok
	}
	h.Error("the history is not linearizable: no order of the calls, one at a time, explains their results")
	path := filepath.Join(os.TempDir(), fmt.Sprintf("history-%d.html", os.Getpid()))
	if err := porcupine.VisualizePath(sequentially, info, path); err != nil {
		h.Errorf("draw it: %v", err)
	}
	h.Logf("drawn in %s", path)
	return true
}

// told returns the operations to check. open is the number of calls whose outcome is still unknown.
func (h *history) told() (told []porcupine.Operation, open int) {
	seen, left := h.sightings()
	for _, c := range h.calls {
		// Only answers in progress when connections break can be lost: later calls find a broken
		// connection, or a server that is down.
		lost := slices.ContainsFunc(h.breaks, c.overlaps)
		switch s := c.step.(type) {
		case appending:
			if c.answer == unknown {
				// The call was executed before its messages were seen, or never.
				s.first, c.to = seen.firstOf(s)
				if lost = s.first != 0; lost {
					c.step, c.answer = s, done
				}
			}
		case settling:
			// If the first answer was lost, the store has repeated the call, and this may be the
			// second answer.
			switch {
			case lost && c.answer == refused:
				s.answer = unsure
			case lost && c.answer == unheard:
				s.answer, c.answer = unknown, unknown
			}
			if c.answer == unknown && h.without(s, seen, c.to) {
				continue
			}
			c.step = s
		case accepting:
			if !h.EndsLinks {
				s.left = left
			}
			c.step = s
		case extending, recalling:
			lost = false // such a call has no effect
		}
		if c.answer == unheard || c.answer == unknown && !lost {
			continue
		}
		if c.answer == unknown {
			c.to = forever
			open++
			undo := undoing{}
			switch s := c.step.(type) {
			case locking:
				undo.nonce = s.nonce
			case taking:
				undo = undoing{s.nonce, s.call}
			}
			if undo.nonce != 0 { // when it locks again, the store ends the locks whose answers were lost
				told = append(told, porcupine.Operation{ClientId: c.client, Input: undo, Call: c.from, Return: forever})
			}
		}
		told = append(told, porcupine.Operation{ClientId: c.client, Input: c.step, Call: c.from, Return: c.to})
	}
	return told, open
}

type sightings []sighting

type sighting struct {
	span
	delivered
	nonce uint64
}

func (h *history) sightings() (seen sightings, left *leftovers) {
	for _, c := range h.calls {
		var got []delivered
		switch s := c.step.(type) {
		case locking:
			got = s.got
		case taking:
			got = s.got
		case settling:
			if c.answer == done {
				seen = append(seen, sighting{c.span, delivered{n: s.n}, s.nonce})
			}
		case renewing:
			if c.answer == done {
				seen = append(seen, sighting{c.span, delivered{n: s.n}, s.nonce})
			}
		case accepting:
			if left != nil && s.answer == refused {
				left.sessions[s.got] = true
			}
		case peeking:
			got = s.got
			left = &leftovers{map[string]bool{}}
		}
		for _, d := range got {
			seen = append(seen, sighting{c.span, d, 0})
		}
	}
	return seen, left
}

// without reports whether s was certainly not executed. s could run only before the connection
// broke. So if the message was seen later, it was not completed. If its lock was seen later, it was
// not settled at all, except in a session, where a message always gets the session's lock.
func (h *history) without(s settling, seen sightings, broken int64) bool {
	return slices.ContainsFunc(seen, func(o sighting) bool {
		return o.n == s.n && o.from > broken && (s.outcome == core.Complete || o.nonce == s.nonce && !h.p.Sessions)
	})
}

// firstOf returns the group's first number (0: no message was seen), and when one was seen.
func (ss sightings) firstOf(a appending) (first, at int64) {
	at = forever
	for _, s := range ss {
		if i := slices.Index(a.bodies, s.body); i >= 0 {
			first, at = s.n-int64(i), min(at, s.to)
		}
	}
	return first, at
}

func deliveredOf(ds []core.Delivery) []delivered {
	var got []delivered
	for _, d := range ds {
		_, n := core.SplitSequenceNumber(d.SequenceNumber)
		got = append(got, delivered{n, string(d.Body.Bytes), d.DeliveryCount})
	}
	return got
}

// append sends one group of count messages. sessions has the session of each message; nil: none.
func (h *history) append(client int, s core.Store, count int, sessions []string) {
	a := appending{sessions: sessions}
	var group []*core.Message
	for i := range count {
		body := strconv.FormatInt(h.bodies.Add(1), 10)
		m := &core.Message{Body: core.Body{Bytes: []byte(body)}}
		if sessions != nil {
			m.SessionID, m.EmptyText = anySpelling(sessions[i]), core.FieldSessionID
		}
		a.bodies, group = append(a.bodies, body), append(group, m)
	}
	from := h.now()
	got := h.p.In(s).Append(h.Context(), [][]*core.Message{group})[0]
	what := answerOf(got.Err)
	if what == done {
		a.first = got.Numbers[0]
		for i, n := range got.Numbers {
			if n != a.first+int64(i) {
				h.Errorf("the sequence numbers of a group are not consecutive: %v", got.Numbers)
			}
		}
		h.stored.Add(int64(count))
	}
	h.note(client, from, a, what)
}

// settle returns false if the settlement may have failed.
func (h *history) settle(client int, s core.Store, token core.LockToken, o core.Outcome) bool {
	from := h.now()
	a := answerOf(h.p.In(s).Settle(h.Context(), []core.Settlement{{Token: token, Outcome: o}})[0])
	h.note(client, from, settling{token.Number(), token.Nonce(), o, a}, a)
	if o == core.Complete && a == done {
		h.stored.Add(-1)
	}
	return a < unsure
}

func (h *history) renew(client int, s core.Store, token core.LockToken) {
	from := h.now()
	if a := answerOf(h.p.In(s).Renew(h.Context(), []core.LockToken{token})[0].Err); a < unsure {
		h.note(client, from, renewing{token.Number(), token.Nonce(), a}, a)
	}
}

func (h *history) clear(client int, s core.Store) {
	from := h.now()
	before := h.stored.Load()
	if a := answerOf(h.p.In(s).Clear(h.Context())); a != done {
		h.Errorf("clear: %v", a)
	}
	h.note(client, from, clearing{}, done)
	h.stored.Add(-before)
}

func (h *history) count(client int, s core.Store) {
	from := h.now()
	c := s.StatsOf(h.Context(), []core.Partition{h.p})[0]
	if answerOf(c.Err) == done {
		h.note(client, from, counting{c.Stats.Ready, c.Stats.Locked}, done)
	}
}

// peek reads all messages. It makes several calls, so no client may call meanwhile.
func (h *history) peek(s core.Store) {
	h.Helper()
	from := h.now()
	h.note(0, from, peeking{h.look(s, math.MaxInt32)}, done)
}

func (h *history) look(s core.Store, limit int) []delivered {
	h.Helper()
	ds, err := h.p.In(s).Peek(h.Context(), core.PeekRequest{Max: limit})
	if err != nil {
		h.Fatalf("peek: %v", err)
	}
	return deliveredOf(ds)
}

type bag[T any] struct {
	mu    sync.Mutex
	items []T
}

func (b *bag[T]) put(items ...T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items = append(b.items, items...)
}

// pick returns a random item. It removes the item unless leave is true.
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

// anyOutcome returns no outcome that moves the message to another queue.
func anyOutcome(random *rand.Rand) core.Outcome {
	return [...]core.Outcome{core.Complete, core.Complete, core.Complete, core.Abandon, core.Release}[random.IntN(5)]
}

func (h *history) playQueue() (conclusive bool) {
	var tokens bag[core.LockToken]
	h.lose = func(s core.Store, _ *rand.Rand) { tokens.put(h.lock(nobody, s, 2)...) }
	return h.play(func(client int, s core.Store, random *rand.Rand) {
		switch choice := random.IntN(100); {
		case choice < 4 && h.clears:
			h.clear(client, s)
		case choice < 25 && h.stored.Load() < 20+4*h.faults.Load():
			h.append(client, s, 1+random.IntN(3), nil)
		case choice < 55:
			tokens.put(h.lock(client, s, 1+random.IntN(3))...)
		case choice < 88:
			// Some locks are settled twice.
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
	}, func(s core.Store) {
		h.count(0, s)
		h.peek(s)
		h.lock(0, s, 1000)
		h.count(0, s)
	})
}

func (h *history) lock(client int, s core.Store, limit int) []core.LockToken {
	l := locking{limit: limit, nonce: h.fake()}
	from := h.now()
	ds, _, err := h.p.In(s).Lock(h.Context(), core.LockRequest{Most: core.Most{Messages: limit}})
	l.got, l.answer = deliveredOf(ds), answerOf(err)
	var tokens []core.LockToken
	for _, d := range ds {
		l.nonces = append(l.nonces, d.LockToken.Nonce())
		tokens = append(tokens, d.LockToken)
	}
	h.note(client, from, l, l.answer)
	return tokens
}
