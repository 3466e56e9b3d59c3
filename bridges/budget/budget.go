// Package budget bounds the memory that messages in progress take in a gateway:
// parts of messages that have not arrived as a whole, messages and requests that
// are not carried out yet, and deliveries and responses that clients have not
// read. All bridges charge one Budget, each connection through a Share.
//
// No connection and no namespace is given a fixed part. A connection may hold as
// many bytes as are free beside them, a namespace twice as many, and all
// connections together that have proven no identity a quarter. So one connection
// alone gets half of the budget, two get a third each, and something is always
// free for one more.
package budget

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// Patience is how long a bridge waits for memory, without reading, before it
	// refuses. It is shorter than the shortest time-outs of clients.
	Patience = 10 * time.Second
	// floor is how many bytes a connection may hold as long as any are free,
	// however much others hold: small messages pass beside large ones.
	floor = 64 << 10
	// large is how many bytes at least released is told of.
	large = 8 << 20
	// Pending is how many bytes of deliveries the receivers of a connection share: those that they have
	// asked for, and those that the client has not read. One has at most maxAsked of them.
	Pending  = 32 << 20
	maxAsked = 8 << 20
	// minAsked is how many must be free so that a receiver asks for any.
	minAsked = 32 << 10
	// Default is the limit of a Budget that is not told one.
	Default = 1 << 30
)

// Budget bounds a gateway's memory for messages in progress. It is safe for
// concurrent use.
type Budget struct {
	limit    int64
	released func(n int64) // may be nil

	mu      sync.Mutex
	held    int64
	refused int64
	groups  map[string]*group
	waiting []*Share // in the order in which they began to wait
}

// group is what the connections of a namespace hold together.
type group struct {
	held   int64
	shares int
}

// New returns a budget of limit bytes, or of Default if limit is not positive. released, if not
// nil, is called when many bytes are given back at once: then the memory of a large message is
// garbage. The caller that gives them back waits for it.
func New(limit int64, released func(n int64)) *Budget {
	if limit <= 0 {
		limit = Default
	}
	return &Budget{limit: limit, released: released, groups: map[string]*group{}}
}

// Stats are the state of a Budget.
type Stats struct {
	Limit, Held int64 // bytes
	Refused     int64 // messages and requests, so far
	Waiting     int   // connections
}

// Stats returns the state of the budget.
func (b *Budget) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{Limit: b.limit, Held: b.held, Refused: b.refused, Waiting: len(b.waiting)}
}

// Share is what one connection holds of a Budget. It is safe for concurrent use.
type Share struct {
	budget *Budget
	wake   func()

	// Guarded by budget.mu:
	name  string
	group *group
	held  int64
	wants int64 // what it waits for; 0: it does not wait
}

// Share returns the share of a connection that has proven no identity yet. It
// must be closed. wake is called, possibly by several goroutines, when Take may
// succeed for what Wait was told of; it must not block.
func (b *Budget) Share(wake func()) *Share {
	s := &Share{budget: b, wake: wake}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.enter("")
	return s
}

// enter adds the share, and what it holds, to the group of that name.
func (s *Share) enter(name string) {
	g := s.budget.groups[name]
	if g == nil {
		g = &group{}
		s.budget.groups[name] = g
	}
	s.name, s.group = name, g
	g.shares++
	g.held += s.held
}

func (s *Share) leave() {
	s.group.held -= s.held
	if s.group.shares--; s.group.shares == 0 {
		delete(s.budget.groups, s.name)
	}
}

// Join says which namespace the connection has proven to belong to.
func (s *Share) Join(namespace string) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	if name := "/" + namespace; name != s.name {
		s.leave()
		s.enter(name)
	}
}

// allows reports whether the share may hold n bytes more while held bytes of the
// budget are in use.
func (s *Share) allows(n, held int64) bool {
	free := s.budget.limit - held - n
	switch {
	case free < 0:
		return false
	case s.held+n <= floor:
		return true
	case s.name == "" && s.group.held+n > free/4:
		return false
	}
	return s.held+n <= free && s.group.held+n <= 2*free
}

// Available returns about how many bytes the share may have beyond what it holds; 0 if it may not even have n.
func (s *Share) Available(n int64) int64 {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if !s.allows(n, b.held) {
		return 0
	}
	free := b.limit - b.held
	return max(n, min((free-s.held)/2, (2*free-s.group.held)/3))
}

// Credit returns how many bytes one of a connection's receivers may ask for, which has used some already:
// asked for them, or not sent them yet. It returns none before half of the receiver's part is free, so
// that not every message is asked for. If there is no memory, the share waits for it.
func (s *Share) Credit(used, receivers int) (bytes int, waits bool) {
	part := min(maxAsked, Pending/receivers)
	if part-used < part/2 {
		return 0, false
	}
	free := s.Available(minAsked)
	if free == 0 {
		s.Wait(minAsked)
	}
	return int(min(int64(part-used), free)), free == 0
}

// Take takes n bytes and reports true, if the share may have them.
func (s *Share) Take(n int64) bool {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if !s.allows(n, b.held) {
		return false
	}
	s.stopWaiting()
	s.add(n)
	return true
}

// Fits reports whether an empty share could take n bytes of an unused budget: if not, waiting is
// useless.
func (b *Budget) Fits(n int64) bool { return n <= b.limit-n }

// Fits is that of the budget.
func (s *Share) Fits(n int64) bool { return s.budget.Fits(n) }

// Wait has wake called when n bytes may be had.
func (s *Share) Wait(n int64) {
	b := s.budget
	b.mu.Lock()
	if s.wants == 0 {
		b.waiting = append(b.waiting, s)
	}
	s.wants = n
	now := s.allows(n, b.held)
	if now {
		s.stopWaiting()
	}
	b.mu.Unlock()
	if now {
		s.wake()
	}
}

func (s *Share) stopWaiting() {
	if s.wants > 0 {
		s.wants = 0
		s.budget.waiting = slices.DeleteFunc(s.budget.waiting, func(w *Share) bool { return w == s })
	}
}

// Add takes n bytes whatever the limit, or gives -n back. It is for what is in
// memory already.
func (s *Share) Add(n int64) {
	if n == 0 {
		return
	}
	b := s.budget
	b.mu.Lock()
	s.add(n)
	wakes := b.due(n)
	b.mu.Unlock()
	for _, wake := range wakes {
		wake()
	}
	if n <= -large && b.released != nil {
		b.released(-n)
	}
}

func (s *Share) add(n int64) {
	s.held += n
	s.group.held += n
	s.budget.held += n
}

// due returns the callbacks to wake after n bytes were added. Woken waiters take their bytes
// themselves, and wait again if others were faster.
func (b *Budget) due(n int64) (wakes []func()) {
	if n >= 0 || len(b.waiting) == 0 {
		return nil
	}
	promised := int64(0)
	b.waiting = slices.DeleteFunc(b.waiting, func(s *Share) bool {
		if !s.allows(s.wants, b.held+promised) {
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
	s.budget.mu.Lock()
	held := s.held
	s.budget.mu.Unlock()
	s.Add(-held)
}

// Close is Release for good: nothing may be taken afterwards.
func (s *Share) Close() {
	s.Release()
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.stopWaiting()
	s.leave()
}

// Refuse counts a refusal of something of n bytes, and returns it: as a quota
// where it could never be had, else as busy.
func (s *Share) Refuse(n int64) error {
	b := s.budget
	b.mu.Lock()
	b.refused++
	b.mu.Unlock()
	if !b.Fits(n) {
		return core.Refuse(core.QuotaExceeded, "The gateway has %d bytes of memory for messages in progress, and one connection at most half of them: %d bytes are too many for it. See the setting message-memory.", b.limit, n)
	}
	return core.Refuse(core.Busy, "The gateway's memory for messages in progress is in use. Try again later.")
}

// Waiter is a Share for a goroutine that may block.
type Waiter struct {
	*Share
	woken chan struct{}
}

// Waiter returns a share as Share does. wake may be nil.
func (b *Budget) Waiter(wake func()) *Waiter {
	woken := make(chan struct{}, 1)
	return &Waiter{woken: woken, Share: b.Share(func() {
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
