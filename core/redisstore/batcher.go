package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Limits of a batcher.
const (
	maxConcurrentFlushes = 2         // flushes under way at once
	maxBatch             = 200       // items in a flush, unless one call has more
	maxBatchBytes        = 256 << 10 // bytes in a flush, unless one call has more
	maxWaiting           = 64 << 20  // bytes waiting behind the flushes; beyond, calls are refused with Busy
)

// batcher lets calls of one kind on one partition share round trips. The first
// flushes at once. Those that come while two flushes are under way wait, in
// order, and ride the next one together: there is no timer, so a lone caller
// waits for nobody.
type batcher[T any] struct {
	store   *Store
	flushed *flushes
	flush   func([]*pendingCall[T])

	mu       sync.Mutex
	waiting  []*pendingCall[T]
	bytes    int // of those waiting
	flushing int
}

// pendingCall is one call's place in a flush. Its flush fills in work's answers,
// then closes done.
type pendingCall[T any] struct {
	work  T
	items int
	bytes int
	done  chan struct{}
}

func (b *batcher[T]) start(s *Store, flushed *flushes, flush func([]*pendingCall[T])) {
	b.store, b.flushed, b.flush = s, flushed, flush
}

// submit hands work in and waits for its flush. If ctx ends first, the flush
// goes on without the caller, who must not look at work again. A caller with
// time for it makes the flush itself, and then stays to its end.
func (b *batcher[T]) submit(ctx context.Context, work T, items, bytes int) error {
	t := &pendingCall[T]{work: work, items: items, bytes: bytes, done: make(chan struct{})}
	departs, ok := b.queue(t)
	switch {
	case !ok:
		return core.CertainlyNotDone(core.Refuse(core.Busy, "Too many operations wait for the message store. Try again."))
	case departs && outlasts(ctx, callTimeout):
		b.flushOnce()
	case departs:
		b.store.calls.Go(b.flushAll)
	}
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// outlasts reports whether ctx leaves time for d, unless it is cancelled.
func outlasts(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) > d || ctx.Done() == nil
}

// enqueue hands work in without waiting for it.
func (b *batcher[T]) enqueue(t *pendingCall[T]) {
	if departs, _ := b.queue(t); departs {
		b.store.calls.Go(b.flushAll)
	}
}

// queue adds a ticket to those that wait, unless they are too many. If a flush
// begins for it, the caller has to make it.
func (b *batcher[T]) queue(t *pendingCall[T]) (departs, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes > maxWaiting {
		return false, false
	}
	b.waiting = append(b.waiting, t)
	b.bytes += t.bytes + pendingCallOverhead
	if departs = b.flushing < maxConcurrentFlushes; departs {
		b.flushing++
	}
	return departs, true
}

// pendingCallOverhead stands for what a waiting call takes beside its bytes.
const pendingCallOverhead = 256

// flushAll flushes until nobody waits.
func (b *batcher[T]) flushAll() {
	for batch := b.nextBatch(); batch != nil; batch = b.nextBatch() {
		b.flushBatch(batch)
	}
}

// flushOnce is flushAll for a caller: a flush in its own goroutine saves two switches.
// Those who wait after it get a goroutine for themselves.
func (b *batcher[T]) flushOnce() {
	batch := b.nextBatch()
	if batch == nil {
		return
	}
	b.flushBatch(batch)
	if !b.finish() {
		b.store.calls.Go(b.flushAll)
	}
}

// finish ends flushing if nobody waits.
func (b *batcher[T]) finish() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 {
		return false
	}
	b.flushing--
	b.waiting = nil
	return true
}

func (b *batcher[T]) flushBatch(batch []*pendingCall[T]) {
	items := 0
	for _, t := range batch {
		items += t.items
	}
	b.flushed.count(items)
	b.flush(batch)
	for _, t := range batch {
		close(t.done)
	}
}

// nextBatch returns those that are flushed next, or ends flushing.
func (b *batcher[T]) nextBatch() []*pendingCall[T] {
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
		b.flushing--
		b.waiting = nil
		return nil
	}
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	b.bytes -= bytes + n*pendingCallOverhead
	return batch
}
