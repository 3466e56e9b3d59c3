package crosstowntest

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/memstore"
)

// clock is a gateway's time: this machine's, moved, or one that stands still.
type clock struct {
	mu     sync.Mutex
	ahead  time.Duration // of this machine's clock
	frozen time.Time     // zero: it runs
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.frozen.IsZero() {
		return c.frozen
	}
	return time.Now().Add(c.ahead)
}

// freeze has the clock stand still, and resume go on from where it stands.
func (c *clock) freeze() {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = now
}

func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.frozen.IsZero() {
		c.ahead, c.frozen = time.Until(c.frozen), time.Time{}
	}
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
	if !c.frozen.IsZero() {
		c.frozen = c.frozen.Add(d)
	}
}

// store is a memory store whose clock can be moved.
type store struct {
	*memstore.Store
	clock *clock

	mu       sync.Mutex
	watchers map[*watched]struct{}
}

// watched is a watcher of a queue.
type watched struct{ core.Watcher }

func newStore() *store {
	c := &clock{}
	return &store{Store: memstore.New(memstore.Options{Clock: c.now}), clock: c, watchers: map[*watched]struct{}{}}
}

// Watch implements core.Partitions, and remembers the watcher.
func (s *store) Watch(r core.Ref, w core.Watcher) (stop func()) {
	unwatch := s.Store.Watch(r, w)
	known := &watched{w}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[known] = struct{}{}
	return func() {
		s.mu.Lock()
		delete(s.watchers, known)
		s.mu.Unlock()
		unwatch()
	}
}

// catchUp carries out in a namespace what is due, and has all watchers look.
func (s *store) catchUp(ctx context.Context, namespace string) (err error) {
	for _, l := range [...]core.Listing{{Kind: core.Queue}, {Kind: core.Topic}} {
		err = cmp.Or(err, s.sweepAll(ctx, namespace, l))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		go w.Wake("") // it may wait for what another watcher does
	}
	return err
}

// sweepAll sweeps the entities of a listing, and the subscriptions of its topics.
func (s *store) sweepAll(ctx context.Context, namespace string, l core.Listing) error {
	const page = 100
	for skip := 0; ; skip += page {
		entities, err := s.Entities(ctx, namespace, l, skip, page)
		if err != nil {
			return err
		}
		for i := range entities {
			e := &entities[i]
			for p := range e.Partitions {
				if _, err := s.Sweep(ctx, e.Partition(uint16(p), core.Main)); err != nil {
					return err
				}
			}
			if e.Kind != core.Topic {
				continue
			}
			if err := s.sweepAll(ctx, namespace, core.Listing{Kind: core.Subscription, Topic: e.Name}); err != nil {
				return err
			}
		}
		if len(entities) < page {
			return nil
		}
	}
}

// Now is the gateway's time.
func (b *Bus) Now() time.Time { return b.gateway.store.clock.now() }

// Freeze has the gateway's time stand still until Resume: no lock ends, no message expires or becomes
// due, unless Advance says so.
func (b *Bus) Freeze() { b.gateway.store.clock.freeze() }

// Resume has the gateway's time go on from where it stands.
func (b *Bus) Resume() { b.gateway.store.clock.resume() }

// Advance moves the gateway's time on, frozen or not. What is due then has been done when it returns:
// locks have ended, messages have expired or become active. Receivers get them, and forwarders move
// them, in the moment after. Time is the gateway's: tests that share it with Namespace share its time.
// Tokens, time-outs of calls and AutoDeleteOnIdle keep this machine's.
func (b *Bus) Advance(d time.Duration) {
	b.tb.Helper()
	b.gateway.store.clock.advance(d)
	if err := b.gateway.store.catchUp(b.tb.Context(), b.identity[0].NamespaceID); err != nil {
		b.tb.Fatalf("crosstowntest: advance the time: %v", err)
	}
}
