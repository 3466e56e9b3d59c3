package redisstore

import (
	"context"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
)

// Limits of a batcher.
const (
	maxFlights    = 2         // flushes under way at once
	maxBatch      = 200       // items in a flush, unless one call has more
	maxBatchBytes = 256 << 10 // bytes in a flush, unless one call has more
	maxWaiting    = 64 << 20  // bytes waiting behind the flushes; beyond, calls are refused with Busy
)

// batcher lets calls of one kind on one partition share round trips. The first
// flushes at once. Those that come while two flushes are under way wait, in
// order, and ride the next one together: there is no timer, so a lone caller
// waits for nobody.
type batcher[T any] struct {
	store *Store
	flush func([]*ticket[T])

	mu      sync.Mutex
	waiting []*ticket[T]
	bytes   int // of those waiting
	flights int
}

// ticket is one call's place in a flush. Its flush fills in work's answers,
// then closes done.
type ticket[T any] struct {
	work  T
	items int
	bytes int
	done  chan struct{}
}

func (b *batcher[T]) start(s *Store, flush func([]*ticket[T])) { b.store, b.flush = s, flush }

// submit hands work in and waits for its flush. If ctx ends first, the flush
// goes on without the caller, who must not look at work again.
func (b *batcher[T]) submit(ctx context.Context, work T, items, bytes int) error {
	t := &ticket[T]{work: work, items: items, bytes: bytes, done: make(chan struct{})}
	if !b.enqueue(t) {
		return core.Refuse(core.Busy, "Too many operations wait for the message store. Try again.")
	}
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

func (b *batcher[T]) enqueue(t *ticket[T]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes > maxWaiting {
		return false
	}
	b.waiting = append(b.waiting, t)
	b.bytes += t.bytes + ticketOverhead
	if b.flights < maxFlights {
		b.flights++
		b.store.calls.Go(b.fly)
	}
	return true
}

// ticketOverhead stands for what a waiting call takes beside its bytes.
const ticketOverhead = 256

// fly flushes until nobody waits.
func (b *batcher[T]) fly() {
	for batch := b.take(); batch != nil; batch = b.take() {
		b.flush(batch)
		for _, t := range batch {
			close(t.done)
		}
	}
}

// take returns those that fly next, or ends the flight.
func (b *batcher[T]) take() []*ticket[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	items, bytes, n := 0, 0, 0
	for _, t := range b.waiting {
		if n > 0 && (items+t.items > maxBatch || bytes+t.bytes > maxBatchBytes) {
			break
		}
		items += t.items
		bytes += t.bytes
		n++
	}
	if n == 0 {
		b.flights--
		b.waiting = nil
		return nil
	}
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	b.bytes -= bytes + n*ticketOverhead
	return batch
}
