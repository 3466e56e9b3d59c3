// Package fair shares out what a gateway has a bounded number of: bytes of memory for what is in
// progress, connections, streams. Each is a Pool, of which every connection, stream or request holds a
// Share. What a request becomes is counted, not only its bytes: see the costs in cost.go.
//
// A pool is free for everybody up to three quarters. Above, a policy grows only while it holds less
// than is left, and from fifteen sixteenths on so does a namespace: somebody new always finds something.
// Those that have proven no identity have a quarter at most. Of bytes, one connection holds at most as many
// as are left.
//
// Beside the pools there is the Level of the process, which the memory that is really in use decides: see Level.
package fair

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// Patience is how long a bridge waits for memory, without reading, before it refuses. It is shorter
	// than the shortest time-outs of clients.
	Patience = 10 * time.Second
	// floor is how many bytes a connection may hold however much the others of its policy hold: small
	// messages pass beside large ones.
	floor = 64 << 10
	// large is how many bytes at least released is told of.
	large = 8 << 20
	// Pending is how many bytes of deliveries the receivers of a connection share: those that they have
	// asked for, and those that the client has not read. One has at most maxAsked of them, and maxTight
	// from Tight on.
	Pending  = 32 << 20
	maxAsked = 8 << 20
	maxTight = 256 << 10
	// minAsked is how many must be free so that a receiver asks for any.
	minAsked = 32 << 10
	// Default is the limit of a pool of bytes that is not told one.
	Default = 1 << 30
)

// Who holds a part of a Pool. The zero Who is everybody who has proven no identity.
type Who struct {
	Namespace string // its ID
	Policy    string // with the entity that it belongs to, if it belongs to one
}

// Of is who a client is: the policy of its first grant.
func Of(id core.Identity) Who {
	if len(id) == 0 {
		return Who{}
	}
	g := &id[0]
	w := Who{Namespace: "/" + id.NamespaceID(), Policy: g.Policy}
	if g.OfEntity {
		w.Policy += " of " + core.EntityOf(g.Scope)
	}
	return w
}

// Pool is what is shared out. It is safe for concurrent use.
type Pool struct {
	limit    int64
	places   string // what one unit is, in the plural; "": bytes
	name     string
	shuts    Level         // from which on nothing more is taken
	released func(n int64) // may be nil
	gauge    *Gauge        // may be nil

	mu      sync.Mutex
	held    int64
	refused int64
	latest  time.Time // when somebody was refused last
	groups  map[Who]*group
	evicted map[*Share]func() // what ends each share that may be ended
	waiting []*Share          // in the order in which they began to wait
}

// group is what a namespace or a policy holds.
type group struct {
	held   int64
	flow   int64 // of late taken for something that begins
	shares int
}

// New returns a pool of limit bytes, or of Default if limit is not positive. released, if not nil, is
// called when many bytes are given back at once: then the memory of a large message is garbage. The caller
// that gives them back waits for it. gauge may be nil.
func New(limit int64, released func(n int64), gauge *Gauge) *Pool {
	if limit <= 0 {
		limit = Default
	}
	p := &Pool{limit: limit, name: "memory for messages in progress", shuts: Full, released: released, gauge: gauge, groups: map[Who]*group{}}
	gauge.add(p)
	return p
}

// Stats are the state of a Pool.
type Stats struct {
	Limit, Held int64 // bytes or places
	Refused     int64 // messages and requests, so far
	Waiting     int   // connections
}

// Stats returns the state of the pool.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Limit: p.limit, Held: p.held, Refused: p.refused, Waiting: len(p.waiting)}
}

// Named gives a pool of bytes its name, as refusals have it, and says from which level on nothing more is
// taken; at first it is Full.
func (p *Pool) Named(name string, shuts Level) *Pool {
	p.name, p.shuts = name, shuts
	return p
}

// isShut reports whether nothing more is taken, whatever is left.
func (p *Pool) isShut() bool { return p.gauge.Level() >= p.shuts }

func (p *Pool) noteRefusal() { p.refused, p.latest = p.refused+1, time.Now() }

// Gauge is that of the pool; it may be nil.
func (p *Pool) Gauge() *Gauge { return p.gauge }

// Exhausted reports whether nothing is left.
func (p *Pool) Exhausted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held >= p.limit
}

// Share is what one connection, stream or request holds of a Pool. It is safe for concurrent use.
type Share struct {
	pool *Pool
	wake func()

	// Guarded by pool.mu:
	who       Who
	namespace *group
	policy    *group
	held      int64
	wants     int64 // what it waits for; 0: it does not wait
}

// Share returns the share of somebody who has proven no identity yet. It must be closed. wake is called,
// possibly by several goroutines, when Take may succeed for what Wait was told of; it must not block.
func (p *Pool) Share(wake func()) *Share {
	s := &Share{pool: p, wake: wake}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.enter(Who{})
	return s
}

// enter adds the share, and what it holds, to the groups of w.
func (s *Share) enter(w Who) {
	s.who = w
	s.namespace, s.policy = s.pool.group(w.ofNamespace()), s.pool.group(w)
	s.namespace.shares++
	s.policy.shares++
	s.namespace.held += s.held
	s.policy.held += s.held
}

func (s *Share) leave() {
	s.pool.forget(s.who.ofNamespace(), s.namespace, s.held)
	s.pool.forget(s.who, s.policy, s.held)
}

// ofNamespace is the name of the group of all that are in the namespace.
func (w Who) ofNamespace() Who { return Who{w.Namespace, "*"} }

func (p *Pool) group(w Who) *group {
	g := p.groups[w]
	if g == nil {
		g = &group{}
		p.groups[w] = g
	}
	return g
}

// forget takes a share that holds so much from a group.
func (p *Pool) forget(w Who, g *group, held int64) {
	g.held -= held
	g.shares--
	p.dropIdle(w, g)
}

// dropIdle forgets a group that nobody belongs to, and of whose flow nothing is left.
func (p *Pool) dropIdle(w Who, g *group) {
	if g.shares == 0 && g.flow == 0 {
		delete(p.groups, w)
	}
}

// Join says who the client has proven to be.
func (s *Share) Join(w Who) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if w != s.who {
		s.leave()
		s.enter(w)
	}
}

// allows reports whether the share may hold n more while held of the pool are in use.
func (s *Share) allows(n, held int64) bool {
	left := s.pool.limit - held
	switch {
	case n > left:
		return false
	case s.who == Who{}:
		return s.namespace.held+n <= min(s.pool.limit/4, left/4) || s.isLittle(n)
	case s.pool.places == "" && s.held+n > left-n && !s.isLittle(n):
		return false
	}
	part := func(g *group, free int64) bool { return held+n <= s.pool.limit-free || g.held+n <= left }
	return part(s.policy, s.pool.limit/4) && part(s.namespace, s.pool.limit/16)
}

// isLittle reports whether the share holds but a little with n bytes more.
func (s *Share) isLittle(n int64) bool { return s.pool.places == "" && s.held+n <= floor }

// Available returns about how many bytes the share may have beyond what it holds; 0 if it may not even have n.
func (s *Share) Available(n int64) int64 {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.allows(n, p.held) {
		return 0
	}
	left := p.limit - p.held
	own := max(left-p.limit/4, (left-s.policy.held)/2)
	return max(n, min((left-s.held)/2, own))
}

// Credit returns how many bytes one of a connection's receivers may ask for, which has used some already:
// asked for them, or not sent them yet. It returns none before half of the receiver's part is free, so
// that not every message is asked for. If there is no memory, the share waits for it.
func (s *Share) Credit(used, receivers int) (bytes int, waits bool) {
	part := min(maxAsked, Pending/receivers)
	switch s.pool.gauge.Level() {
	case Tight:
		part = min(part, maxTight)
	case Full:
		part = min(part, 2*minAsked)
	}
	if part-used < part/2 {
		return 0, false
	}
	free := s.Available(minAsked)
	if free == 0 {
		s.Wait(minAsked)
	}
	return int(min(int64(part-used), free)), free == 0
}

// Take takes n for something that begins and reports true, if the share may have them. It may not while
// the level shuts the pool, nor at the level below if its policy has taken much of late.
func (s *Share) Take(n int64) bool { return s.take(n, true) }

// take is Take, or at every level for what does not begin anything.
func (s *Share) take(n int64, begins bool) bool {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if begins && p.refuses(s.policy) || !s.allows(n, p.held) {
		return false
	}
	s.stopWaiting()
	s.add(n)
	if begins && p.gauge != nil {
		s.policy.flow += n
	}
	return true
}

// flowPart is what part of a pool a policy may have taken of late and still go on at Tight.
const flowPart = 16

// refuses reports whether a policy is refused what begins, because of the level: it shuts the pool, or the policy
// has taken too much of late for it. g may be nil. p.mu is held.
func (p *Pool) refuses(g *group) bool {
	return p.isShut() || g != nil && p.shuts == Full && p.gauge.Level() == Tight && g.flow > p.limit/flowPart
}

// forgetFlow forgets a part of what was taken. p.mu is held.
func (p *Pool) forgetFlow() {
	for w, g := range p.groups {
		g.flow -= (g.flow + forgetPart - 1) / forgetPart
		p.dropIdle(w, g)
	}
}

// Refuses reports whether somebody is refused what takes memory, because of the level.
func (p *Pool) Refuses(w Who) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuses(p.groups[w])
}

// IsRefused reports whether the share is refused what takes memory, because of the level.
func (s *Share) IsRefused() bool {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.pool.refuses(s.policy)
}

// Fits reports whether an empty share could take n of an unused pool: if not, waiting is useless.
func (s *Share) Fits(n int64) bool { return n <= s.pool.limit-n }

// Evictable says how to end the share's holder, should memory be full. evict must not block.
func (s *Share) Evictable(evict func()) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.pool.evicted == nil {
		s.pool.evicted = make(map[*Share]func())
	}
	s.pool.evicted[s] = evict
}

// Evict ends the largest share of the policy that holds most, of those that may be ended and hold more than a
// little. It reports false if there is none.
func (p *Pool) Evict() bool {
	p.mu.Lock()
	var most *Share
	for s := range p.evicted {
		if s.held > floor && (most == nil || s.policy.held > most.policy.held || s.policy == most.policy && s.held > most.held) {
			most = s
		}
	}
	evict := p.evicted[most]
	delete(p.evicted, most)
	p.mu.Unlock()
	if evict == nil {
		return false
	}
	evict()
	return true
}

// Holding is what somebody holds of a Pool.
type Holding struct {
	Who  Who
	Held int64
}

// Largest returns the n policies that hold most, the largest first.
func (p *Pool) Largest(n int) []Holding {
	p.mu.Lock()
	all := make([]Holding, 0, len(p.groups))
	for w, g := range p.groups {
		if w != w.ofNamespace() && g.held > 0 {
			all = append(all, Holding{w, g.held})
		}
	}
	p.mu.Unlock()
	slices.SortFunc(all, func(a, b Holding) int { return cmp.Compare(b.Held, a.Held) })
	return all[:min(n, len(all))]
}

// Wait has wake called when n bytes may be had.
func (s *Share) Wait(n int64) {
	p := s.pool
	p.mu.Lock()
	if s.wants == 0 {
		p.waiting = append(p.waiting, s)
	}
	s.wants = n
	now := s.allows(n, p.held)
	if now {
		s.stopWaiting()
	}
	p.mu.Unlock()
	if now {
		s.wake()
	}
}

func (s *Share) stopWaiting() {
	if s.wants > 0 {
		s.wants = 0
		s.pool.waiting = slices.DeleteFunc(s.pool.waiting, func(w *Share) bool { return w == s })
	}
}

// Add takes n bytes whatever the limit, or gives -n back. It is for what is in
// memory already.
func (s *Share) Add(n int64) {
	if n == 0 {
		return
	}
	p := s.pool
	p.mu.Lock()
	s.add(n)
	var wakes []func()
	if n < 0 {
		wakes = p.due()
	}
	p.mu.Unlock()
	for _, wake := range wakes {
		wake()
	}
	if n <= -large && p.released != nil {
		p.released(-n)
	}
}

func (s *Share) add(n int64) {
	s.held += n
	s.namespace.held += n
	s.policy.held += n
	s.pool.held += n
}

// due returns the callbacks to wake after something was given back. Woken waiters take their bytes
// themselves, and wait again if others were faster.
func (p *Pool) due() (wakes []func()) {
	if len(p.waiting) == 0 {
		return nil
	}
	promised := int64(0)
	p.waiting = slices.DeleteFunc(p.waiting, func(s *Share) bool {
		if !s.allows(s.wants, p.held+promised) {
			return false
		}
		promised += s.wants
		s.wants = 0
		wakes = append(wakes, s.wake)
		return true
	})
	return wakes
}

// Release gives back all that the share holds. No one else may use it meanwhile.
func (s *Share) Release() {
	s.pool.mu.Lock()
	held := s.held
	s.pool.mu.Unlock()
	s.Add(-held)
}

// Close is Release for good: nothing may be taken afterwards.
func (s *Share) Close() {
	s.Release()
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.stopWaiting()
	delete(s.pool.evicted, s)
	s.leave()
}

// Refuse counts a refusal of something that takes n, and returns it: as a quota where it could never be
// had, else as busy.
func (s *Share) Refuse(n int64) error {
	p := s.pool
	p.mu.Lock()
	p.noteRefusal()
	p.mu.Unlock()
	switch {
	case !s.Fits(n):
		return core.Refuse(core.QuotaExceeded, "The gateway has %d bytes of memory for messages in progress, and one connection may use half of it: %d bytes are too many. See the setting message-memory.", p.limit, n)
	case s.IsRefused():
		return p.gauge.Refusal()
	}
	return core.Refuse(core.Busy, "The gateway's %s is in use. Try again later.", p.name)
}

// Waiter is a Share for a goroutine that may block.
type Waiter struct {
	*Share
	woken chan struct{}
}

// Waiter returns a share as Share does. wake may be nil.
func (p *Pool) Waiter(wake func()) *Waiter {
	woken := make(chan struct{}, 1)
	return &Waiter{woken: woken, Share: p.Share(func() {
		select {
		case woken <- struct{}{}:
		default:
		}
		if wake != nil {
			wake()
		}
	})}
}

// Woken receives when the bytes may be had that Wait was told of, or somewhat later.
func (s *Waiter) Woken() <-chan struct{} { return s.woken }

// Await takes n bytes. It waits for them up to Patience.
func (s *Waiter) Await(ctx context.Context, n int64) error {
	if s.Take(n) {
		return nil
	}
	if !s.Fits(n) {
		return s.Refuse(n)
	}
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	for {
		if s.IsRefused() {
			return s.Refuse(n)
		}
		s.Wait(n)
		select {
		case <-s.woken:
		case <-patience.C:
			return s.Refuse(n)
		case <-ctx.Done():
			return ctx.Err()
		}
		if s.Take(n) {
			return nil
		}
	}
}
