// Package fair divides a gateway's limited resources among its clients: bytes of memory for
// messages in progress, connections, streams. Each resource is a Pool, of which every connection,
// stream or request has a Share. A Share counts all the memory of a decoded request, not only its
// bytes (see cost.go).
// Up to three quarters of a pool, each client can take what it needs. Beyond that, a policy can
// take more only if it then holds no more than was free before. Beyond fifteen sixteenths, the same
// applies to a namespace. So a new client always gets memory. All clients without a proven identity
// together hold at most a quarter. One connection can hold at most as many bytes as remain free.
// The memory that the process really uses determines a Level.
package fair

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	// Patience is how long a bridge waits for memory, without reading, before it refuses a message.
	// Time-outs of clients are longer.
	Patience = 10 * time.Second
	// Each connection may hold floor bytes, whatever others of its policy hold, so that small
	// messages need not wait for large ones.
	floor = 64 << 10
	large = 8 << 20 // bytes from which on a release calls Pool.released
	// Pending is the maximum number of bytes, for all receivers of a connection, that are requested
	// from the store or not yet read by the client. One receiver has at most maxAsked of them, and
	// from Tight on at most maxTight.
	Pending  = 32 << 20
	maxAsked = 8 << 20
	maxTight = 256 << 10
	// A receiver requests nothing until minAsked bytes are free.
	minAsked = 32 << 10
	Default  = 1 << 30
)

// Who is a policy of a namespace. The zero Who is all clients without a proven identity.
type Who struct {
	Namespace string
	Policy    string // policy name and, for an entity's policy, the entity's name
}

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

// Pool is a limited resource. It is safe for concurrent use.
type Pool struct {
	limit    int64
	places   string // what a unit is, in the plural, such as connections; "": bytes
	name     string
	shuts    Level         // from this level on, Take may fail
	released func(n int64) // may be nil
	gauge    *Gauge        // may be nil

	mu      sync.Mutex
	held    int64
	refused int64
	latest  time.Time
	groups  map[Who]*group
	evicted map[*Share]func() // shares that may be evicted, with the functions that close their holders
	waiting []*Share          // in the order in which they began to wait
}

type group struct {
	held   int64
	flow   int64 // bytes recently taken for new work
	shares int
}

// New returns a pool; a limit of 0 or less means Default. If released is not nil, the pool calls it
// when a share gives back many bytes at once, because the memory of a large message is then
// garbage. The goroutine that gives them back waits for the call. gauge may be nil.
func New(limit int64, released func(n int64), gauge *Gauge) *Pool {
	if limit <= 0 {
		limit = Default
	}
	p := &Pool{limit: limit, name: "memory for messages in progress", shuts: Full, released: released, gauge: gauge, groups: map[Who]*group{}}
	gauge.add(p)
	return p
}

type Stats struct {
	Held    int64 `json:"held"`
	Limit   int64 `json:"limit"`
	Refused int64 `json:"refused"`
	Waiting int   `json:"-"`
}

func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Limit: p.limit, Held: p.held, Refused: p.refused, Waiting: len(p.waiting)}
}

// Named sets the pool's name, and the level from which on Take may fail (by default Full).
func (p *Pool) Named(name string, shuts Level) *Pool {
	p.name, p.shuts = name, shuts
	return p
}

func (p *Pool) noteRefusal() { p.refused, p.latest = p.refused+1, time.Now() }

func (p *Pool) Gauge() *Gauge { return p.gauge }

func (p *Pool) Exhausted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held >= p.limit
}

// Share is what one connection, stream or request holds of a Pool. It is safe for concurrent use.
type Share struct {
	pool   *Pool
	onWake func() // see Pool.Share; may be nil
	woken  wake.Signal

	// Guarded by pool.mu:
	who       Who
	namespace *group
	policy    *group
	held      int64
	wants     int64 // what the share waits for; 0: it does not wait
}

// Share returns the share of a client without a proven identity. The caller must close it. The pool
// calls onWake, if it is not nil, when a Take of the number given to Wait may succeed. onWake must
// not block, and any goroutine may call it.
func (p *Pool) Share(onWake func()) *Share {
	s := &Share{pool: p, onWake: onWake, woken: wake.New()}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.enter(Who{})
	return s
}

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

func (w Who) ofNamespace() Who { return Who{w.Namespace, "*"} }

func (p *Pool) group(w Who) *group {
	g := p.groups[w]
	if g == nil {
		g = &group{}
		p.groups[w] = g
	}
	return g
}

func (p *Pool) forget(w Who, g *group, held int64) {
	g.held -= held
	g.shares--
	p.dropIdle(w, g)
}

func (p *Pool) dropIdle(w Who, g *group) {
	if g.shares == 0 && g.flow == 0 {
		delete(p.groups, w)
	}
}

func (s *Share) Join(w Who) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if w != s.who {
		s.leave()
		s.enter(w)
	}
}

// allows reports whether the share may take n. held is what all shares of the pool hold.
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

func (s *Share) isLittle(n int64) bool { return s.pool.places == "" && s.held+n <= floor }

// Available estimates how much the share can take. It returns 0 if the share may not even take n.
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

// Credit returns how many more bytes a receiver may request. receivers is the number of receivers
// of the connection. used is what this receiver has requested, or received and not yet sent to the
// client. Credit returns 0 until half of the receiver's maximum is free, so that messages are not
// requested one by one. waits means that the share now waits for memory.
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

// Take adds n to the share. Depending on the Level, it returns false for policies or namespaces
// that have just taken much, or for all.
func (s *Share) Take(n int64) bool { return s.take(n, true) }

// take adds n to the share if the pool allows it. If begins is false, it ignores the pool's Level.
func (s *Share) take(n int64, begins bool) bool {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if begins && p.refuses(s.policy, s.namespace, n) || !s.allows(n, p.held) {
		return false
	}
	s.stopWaiting()
	s.add(n)
	if begins && p.gauge != nil {
		s.policy.flow += n
		s.namespace.flow += n
	}
	return true
}

// At Tight, a policy's flow (the bytes that it has recently taken for new work), including n, may
// be at most 1/flowPart of the pool. At Full, the flow of a whole namespace may be at most
// 1/littlePart, so that it can work although others have filled the memory.
const flowPart, littlePart = 16, 64

// refuses reports whether the Level forbids n new bytes. A nil group has no flow. p.mu is held.
func (p *Pool) refuses(policy, namespace *group, n int64) bool {
	may := func(g *group, part int64) bool { return g == nil || g.flow+n <= p.limit/part }
	switch l := p.gauge.Level(); {
	case p.shuts != Full:
		return l >= p.shuts
	case l == Full || p.gauge.lacks(p.held+n):
		return !may(namespace, littlePart)
	default:
		return l == Tight && !may(policy, flowPart)
	}
}

// p.mu is held.
func (p *Pool) forgetFlow() {
	for w, g := range p.groups {
		g.flow -= (g.flow + forgetPart - 1) / forgetPart
		p.dropIdle(w, g)
	}
}

func (p *Pool) Refuses(w Who) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuses(p.groups[w], p.groups[w.ofNamespace()], 0)
}

func (s *Share) IsRefused(n int64) bool {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.pool.refuses(s.policy, s.namespace, n)
}

// Fits reports whether an empty pool would give n to the share. If not, waiting is useless.
func (s *Share) Fits(n int64) bool { return n <= s.pool.limit-n }

// Evictable lets the pool call evict when memory is full. evict must close the share's connection,
// stream or request, and must not block.
func (s *Share) Evictable(evict func()) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.pool.evicted == nil {
		s.pool.evicted = make(map[*Share]func())
	}
	s.pool.evicted[s] = evict
}

// Evict evicts the largest share of the policy that holds most, among shares above floor bytes.
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

type Holding struct {
	Who  Who
	Held int64
}

// Largest returns the n largest holdings, the largest first.
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

// Wait makes the pool wake the share when it may take n.
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
		s.rouse()
	}
}

// rouse tells the share that it may take what it waits for.
func (s *Share) rouse() {
	s.woken.Set()
	if s.onWake != nil {
		s.onWake()
	}
}

func (s *Share) stopWaiting() {
	if s.wants > 0 {
		s.wants = 0
		s.pool.waiting = slices.DeleteFunc(s.pool.waiting, func(w *Share) bool { return w == s })
	}
}

// Add takes n whatever the limit, because the data are already in memory. n may be negative.
func (s *Share) Add(n int64) {
	if n == 0 {
		return
	}
	p := s.pool
	p.mu.Lock()
	s.add(n)
	var due []*Share
	if n < 0 {
		due = p.due()
	}
	p.mu.Unlock()
	for _, w := range due {
		w.rouse()
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

// due returns shares that can now take what they wait for. A share must wait again if others take
// it first.
func (p *Pool) due() (all []*Share) {
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
		all = append(all, s)
		return true
	})
	return all
}

// No other goroutine may use the share during Release.
func (s *Share) Release() {
	s.pool.mu.Lock()
	held := s.held
	s.pool.mu.Unlock()
	s.Add(-held)
}

func (s *Share) Close() {
	s.Release()
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.stopWaiting()
	delete(s.pool.evicted, s)
	s.leave()
}

// Refuse returns QuotaExceeded if n can never fit, otherwise Busy.
func (s *Share) Refuse(n int64) error {
	p := s.pool
	p.mu.Lock()
	p.noteRefusal()
	p.mu.Unlock()
	switch {
	case !s.Fits(n):
		return core.Refuse(core.QuotaExceeded, "The message has %[2]d bytes, but a connection may use at most half of the %[1]d bytes that the gateway has for messages in progress: increase the setting message-memory.", p.limit, n)
	case s.IsRefused(n):
		return p.gauge.Refusal()
	}
	return core.Refuse(core.Busy, "All of the gateway's %s is in use. Try again later.", p.name)
}

// Woken's channel gets a value when the share may take the number given to Wait, or soon after.
func (s *Share) Woken() <-chan struct{} { return s.woken }

// AfterRefusal is how long a client that was refused for lack of memory waits for the answer, or
// how long its connection is not read. Otherwise, a few clients that immediately repeat refused
// requests would occupy the processors.
const AfterRefusal = 100 * time.Millisecond

// Await takes n. If n does not fit, it waits up to Patience, or only AfterRefusal if waiting is
// useless, and then returns the error of Refuse. It returns ctx's error if ctx ends first.
func (s *Share) Await(ctx context.Context, n int64) error {
	if s.Take(n) {
		return nil
	}
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	for {
		if !s.Fits(n) || s.IsRefused(n) {
			patience.Reset(AfterRefusal)
		} else {
			s.Wait(n)
		}
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

// AwaitRoom waits until n fits. It takes nothing, and has no time limit: it is for data that a
// client sends only on request. It returns false if ctx ends.
func (s *Share) AwaitRoom(ctx context.Context, n int64) bool {
	for ctx.Err() == nil && s.Available(n) == 0 && s.Fits(n) {
		s.Wait(n)
		select {
		case <-s.woken:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}
