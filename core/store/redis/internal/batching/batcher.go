// Package batching lets calls of one kind share exchanges with Redis.
package batching

import (
	"context"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

const (
	maxConcurrentFlushes = 2        // exchanges in progress
	MaxBatch             = 200      // items, such as messages, in an exchange, unless one call has more
	MaxBatchBytes        = 4 << 20  // bytes in an exchange, unless one call has more; Redis takes some 5 ms for them
	maxWaiting           = 64 << 20 // bytes of waiting calls, beyond which calls are refused as Busy

	patience = 2 * time.Millisecond // how long a patient call waits for others
	enough   = 64                   // items of patient calls that wait no longer
)

// Batcher lets calls of one kind on one partition share exchanges with Redis (flushes). A call
// flushes immediately, unless two flushes are in progress: then it waits, and shares the next
// flush, in order. A patient call, for whose result no client waits, first waits for other calls.
type Batcher[T any] struct {
	server  *server.Server
	flushed *Counter
	flush   func([]*Call[T])

	mu       sync.Mutex
	waiting  []*Call[T]
	items    int
	bytes    int
	due      bool // the waiting calls wait only for flushes in progress
	timed    bool // a timer will make them due
	flushing int
	alone    bool // a flush begins only when no other is in progress
}

// Call is one call, as a flush gets it. The flush writes the answer into Work.
type Call[T any] struct {
	Work  T
	items int
	bytes int
	done  chan struct{}
}

func (b *Batcher[T]) Start(s *server.Server, flushed *Counter, flush func([]*Call[T])) {
	b.server, b.flushed, b.flush = s, flushed, flush
}

// Submit adds work and waits for the flush that processes it. If ctx ends before the flush begins,
// the work is not done. If ctx ends later, the flush continues, and the caller must neither read
// nor write work any more. If ctx leaves enough time, the flush may run in the caller's goroutine.
func (b *Batcher[T]) Submit(ctx context.Context, work T, items, bytes int, patient bool) error {
	t := &Call[T]{Work: work, items: items, bytes: bytes, done: make(chan struct{})}
	departs, ok := b.queue(t, patient)
	switch {
	case !ok:
		return core.CertainlyNotDone(core.Refuse(core.Busy, "Too many operations wait for the message store. Try again."))
	case departs && outlasts(ctx, conn.CallTimeout):
		b.flushOnce()
	case departs:
		b.server.Calls.Go(b.flushAll)
	}
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		if b.withdraw(t) {
			return core.CertainlyNotDone(server.Ended(ctx))
		}
		return server.Ended(ctx)
	}
}

// withdraw reports whether t was still waiting for its flush.
func (b *Batcher[T]) withdraw(t *Call[T]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, t)
	if i < 0 {
		return false
	}
	b.waiting = slices.Concat(b.waiting[:i], b.waiting[i+1:]) // a batch may share the array
	b.items -= t.items
	b.bytes -= t.bytes + pendingCallOverhead
	return true
}

func outlasts(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) > d || ctx.Done() == nil
}

// queue adds t to the waiting calls. ok is false if these have too many bytes. If departs is true,
// the caller must start a flush.
func (b *Batcher[T]) queue(t *Call[T], patient bool) (departs, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes > maxWaiting {
		return false, false
	}
	b.waiting = append(b.waiting, t)
	b.items += t.items
	b.bytes += t.bytes + pendingCallOverhead
	if b.due = b.due || !patient || b.items >= enough; !b.due && !b.timed {
		b.timed = true
		time.AfterFunc(patience, b.Hurry)
	}
	return b.departs(), true
}

// departs reports whether a flush must start, and counts it.
func (b *Batcher[T]) departs() bool {
	departs := b.due && b.flushing < maxConcurrentFlushes && (b.flushing == 0 || !b.alone)
	if departs {
		b.flushing++
	}
	return departs
}

// Hurry flushes patient calls that wait.
func (b *Batcher[T]) Hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timed = false
	if b.due = len(b.waiting) > 0; b.departs() {
		b.server.Calls.Go(b.flushAll)
	}
}

func (b *Batcher[T]) SetAlone(alone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alone = alone
}

const pendingCallOverhead = 256

func (b *Batcher[T]) flushAll() {
	for batch := b.nextBatch(); batch != nil; batch = b.nextBatch() {
		b.flushBatch(batch)
	}
}

// flushOnce runs in the caller's goroutine, which saves two switches of goroutines.
func (b *Batcher[T]) flushOnce() {
	batch := b.nextBatch()
	if batch == nil {
		return
	}
	b.flushBatch(batch)
	if !b.finish() {
		b.server.Calls.Go(b.flushAll)
	}
}

func (b *Batcher[T]) finish() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.due {
		b.flushing--
	}
	return !b.due
}

func (b *Batcher[T]) flushBatch(batch []*Call[T]) {
	items := 0
	for _, t := range batch {
		items += t.items
	}
	b.flushed.count(items)
	if items > MaxBatch {
		done, _ := b.server.Turns.Take(context.Background()) // the context never ends
		defer done()
	}
	b.flush(batch)
	for _, t := range batch {
		close(t.done)
	}
}

// If no calls are due, nextBatch ends flushing.
func (b *Batcher[T]) nextBatch() []*Call[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.due || len(b.waiting) == 0 {
		b.flushing--
		b.due = false
		return nil
	}
	items, bytes, n := 0, 0, 0
	for _, t := range b.waiting {
		if n > 0 && (items+t.items > MaxBatch || bytes+t.bytes > MaxBatchBytes) {
			break
		}
		items += t.items
		bytes += t.bytes
		n++
	}
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	b.items -= items
	b.bytes -= bytes + n*pendingCallOverhead
	if len(b.waiting) == 0 {
		b.waiting, b.due = nil, false
	}
	return batch
}

// flushBounds are the Bounds of histograms. A single call may have more items than MaxBatch.
var flushBounds = [...]int{1, 2, 5, 10, 20, 50, 100, MaxBatch}

// Histogram counts exchanges with Redis by their numbers of items (messages, publications or
// locks).
type Histogram struct {
	Operation string   // append, publish, settle or renew
	Bounds    []int    // upper bounds of all Counts but the last
	Counts    []uint64 // exchanges for each of Bounds, then those with more items
	Items     uint64   // the total of all exchanges
}

type Counter struct {
	counts [len(flushBounds) + 1]atomic.Uint64
	items  atomic.Uint64
}

func (f *Counter) count(items int) {
	f.counts[sort.SearchInts(flushBounds[:], items)].Add(1)
	f.items.Add(uint64(items))
}

func (f *Counter) Histogram(operation string) Histogram {
	h := Histogram{Operation: operation, Bounds: flushBounds[:], Items: f.items.Load()}
	for at := range f.counts {
		h.Counts = append(h.Counts, f.counts[at].Load())
	}
	return h
}
