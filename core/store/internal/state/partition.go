package state

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// partition is one partition of a queue, or of a topic with its subscriptions. A call changes all
// of it in one step.
type partition struct {
	mu            sync.Mutex
	own           *entityState            // state of the queue or topic itself; nil when it is deleted
	subscriptions map[string]*entityState // of a topic, by the subscription's ID
	version       int64                   // of the topic's subscriptions
	bytes         int64                   // in all queues
	wakes         []wake                  // doorbells that the call in flight must ring
	entityID      string                  // of the queue or topic
	index         uint16
	journal       Journal // nil: none
	remembered    *remembered
	effects       *effects // of the call in flight; nil without a journal
	pieces        *pieces  // set while the journal is replayed on a snapshot
	cleared       int      // number of times the partition was cleared; a snapshot in progress compares it
}

// entityState is the part of a queue, topic or subscription that one partition holds.
type entityState struct {
	partition *partition
	ref       core.Ref               // names its main queue
	queues    [core.SubQueues]*queue // created when first used
	seen      seenIDs                // message ids that duplicate detection remembers
	moves     seenIDs                // keys of moves that ended here
	history   history
	whole     int64 // the state of core.Rate.Take
}

func newPartition(r core.Ref, j Journal, m *remembered) *partition {
	p := &partition{entityID: r.Entity, index: r.Index, journal: j, remembered: m}
	p.own = &entityState{partition: p, ref: r}
	return p
}

// entity returns the state of the subscription with that ID or, for "", of the queue or topic; nil
// if it no longer exists.
func (p *partition) entity(subscription string) *entityState {
	if subscription == "" {
		return p.own
	}
	return p.subscriptions[subscription]
}

func (b *entityState) queue(sub core.SubQueue) *queue {
	q := b.queues[sub]
	if q == nil {
		q = &queue{home: b, ref: b.ref}
		q.ref.Sub = sub
		b.queues[sub] = q
	}
	return q
}

func (b *entityState) bytes() (sum int64) {
	for _, q := range b.queues {
		if q != nil {
			sum += q.bytes
		}
	}
	return sum
}

func (p *partition) subscribe(r core.Ref, version int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version = version
	if p.subscriptions == nil {
		p.subscriptions = make(map[string]*entityState)
	}
	if p.subscriptions[r.Subscription] == nil {
		p.subscriptions[r.Subscription] = &entityState{partition: p, ref: r}
		if p.pieces != nil {
			delete(p.pieces.homes, r.Subscription)
		}
	}
}

func (p *partition) unsubscribe(r core.Ref, version int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version = version
	if b := p.subscriptions[r.Subscription]; b != nil {
		p.bytes -= b.bytes()
		b.evict()
		delete(p.subscriptions, r.Subscription)
	}
}

// drop removes all contents, and makes later calls fail.
func (p *partition) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.own != nil {
		p.own.evict()
	}
	for _, b := range p.subscriptions {
		b.evict()
	}
	p.own, p.subscriptions = nil, nil
}

// evict tells the journal that messages of a deleted entity no longer use memory.
func (b *entityState) evict() {
	b.forgetAll()
	for _, q := range b.queues {
		if q != nil {
			q.evict()
		}
	}
}

// handle is a partition with its caller's policy, and implements core.Operations.
type handle struct {
	*Store
	core.Ref
	core.Policy
}

// Partition returns a partition to work with.
func (s *Store) Partition(r core.Ref, p core.Policy) core.Partition {
	return core.Partition{Ref: r, Policy: p, Operations: &handle{s, r, p}}
}

// txn is the exclusive access of one call to a partition, at one instant.
type txn struct {
	*partition
	*handle
	home  *entityState // the entityState that Ref belongs to
	queue *queue       // the queue that Ref names
	now   int64

	end    Position // of the journal when the call unlocked the partition
	newest Position // of the newest record among the messages that the call delivers
	absent []absent // the delivered messages that are not in memory, in order
	pinned func()   // unpins: lets the journal again remove the records of absent
}

// enter locks the partition, begins a call and does everything that is due. It does so in steps,
// and lets others use the partition between two steps. The caller must end the call with leave. If
// the partition does not exist, ok is false.
func (p *handle) enter() (t txn, ok bool) { return p.enterWith(nil) }

// enterWith does the same as enter for a call whose messages Store.begin has prepared.
func (p *handle) enterWith(x *effects) (t txn, ok bool) {
	for {
		t, done, ok := p.enterOnce(x)
		if !ok || done {
			return t, ok
		}
		x = t.effects
		t.pause()
	}
}

// enterOnce does the same as enterWith, but does only one step of what is due; done reports whether
// no more is due. It is for calls whose answers do not depend on what is due.
func (p *handle) enterOnce(x *effects) (t txn, done, ok bool) {
	shard := p.lockPartition(p.Ref)
	if shard == nil {
		if x != nil {
			x.release()
		}
		return txn{}, false, false
	}
	now := p.millis()
	p.beginAt(shard, x, now)
	home := shard.entity(p.Subscription)
	t = txn{partition: shard, handle: p, home: home, queue: home.queue(p.Sub), now: now}
	// Sweep the main queue first, so that the call sees the messages that this sweep dead-letters.
	budget := sweepMost
	done = (!p.Sub.IsDeadLetter() || t.sweep(home.queue(p.Sub-1), &budget)) && t.sweep(t.queue, &budget)
	if window := p.DuplicateWindow.Milliseconds(); window > 0 {
		home.forgetIDs(t.now - window)
	}
	return t, done, true
}

// beginAt begins a call on the locked partition p. x has the messages that the call has prepared,
// or is nil.
func (s *Store) beginAt(p *partition, x *effects, now int64) {
	if x == nil && s.journal != nil {
		x = s.newEffects()
	}
	if p.effects = x; x != nil {
		x.At(now, s.virtual)
	}
}

// pause lets others use the partition between two steps of a call.
func (t *txn) pause() {
	if x := t.effects; x != nil {
		x.append()
		t.partition.effects = nil
	}
	t.unlockAndRing()
}

// lockPartition locks and returns the partition of r, or returns nil if it does not exist.
func (s *Store) lockPartition(r core.Ref) *partition {
	p := s.partition(r)
	if p == nil {
		return nil
	}
	p.mu.Lock()
	if p.entity(r.Subscription) == nil {
		p.mu.Unlock()
		return nil
	}
	return p
}

// endEffects appends the call's effects to the journal, and sets t.end.
func (t *txn) endEffects() {
	if x := t.effects; x != nil {
		t.end = x.append()
		t.partition.effects = nil
		x.release()
	}
}

// wake is a request to ring the doorbells of a queue (call the functions that Watch has
// registered): for a session, or for any receiver.
type wake struct {
	queue   *queue
	session *session // nil: for any receiver
}

// wakeReceivers rings the doorbells because any receiver may find new messages or sessions.
func (t *txn) wakeReceivers(q *queue) {
	if !q.woken {
		q.woken = true
		t.wakes = append(t.wakes, wake{queue: q})
	}
}

// wakeHolder rings the doorbells because the holder of session x may find new messages.
func (t *txn) wakeHolder(q *queue, x *session) {
	if !x.woken {
		x.woken = true
		t.wakes = append(t.wakes, wake{q, x})
	}
}

// leave ends the call, and rings the doorbells that the call has requested.
func (t *txn) leave() {
	t.endEffects()
	t.unlockAndRing()
}

func (t *txn) unlockAndRing() {
	type call struct {
		doorbell *func(core.SessionKey)
		session  core.SessionKey
	}
	var calls []call
	for _, r := range t.wakes {
		session := core.SessionKey("")
		if r.session == nil {
			r.queue.woken = false
		} else {
			r.session.woken, session = false, r.session.Key
		}
		for _, doorbell := range t.Store.doorbells.of(r.queue.ref) {
			calls = append(calls, call{doorbell, session})
		}
	}
	clear(t.wakes)
	t.wakes = t.wakes[:0]
	t.mu.Unlock()
	for _, c := range calls {
		(*c.doorbell)(c.session)
	}
}

func (t *txn) number(n int64) int64 { return core.SequenceNumber(t.Ref.Index, n) }

// hooks are functions, each registered for a key. The zero hooks are empty.
type hooks[K comparable, F any] struct {
	mu    sync.RWMutex
	byKey map[K][]*F // a slice is replaced, never changed: callers iterate over it without the mutex
}

// add registers f for key until stop is called. stop may be called more than once.
func (h *hooks[K, F]) add(key K, f F) (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byKey == nil {
		h.byKey = make(map[K][]*F)
	}
	own := &f
	h.byKey[key] = append(slices.Clip(h.byKey[key]), own)
	return func() { h.remove(key, own) }
}

func (h *hooks[K, F]) remove(key K, own *F) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := make([]*F, 0, len(h.byKey[key]))
	for _, f := range h.byKey[key] {
		if f != own {
			rest = append(rest, f)
		}
	}
	h.byKey[key] = rest
	if len(rest) == 0 {
		delete(h.byKey, key)
	}
}

func (h *hooks[K, F]) of(key K) []*F {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.byKey[key]
}

func (p *handle) Take(_ context.Context, r core.Rate, n int) (granted int, again time.Time, err error) {
	shard := p.lockPartition(p.Ref)
	if shard == nil {
		return 0, time.Time{}, p.stopped()
	}
	defer shard.mu.Unlock()
	home := shard.entity(p.Subscription)
	var next int64
	granted, home.whole, next = r.Take(home.whole, p.millis()*1000, n)
	return granted, instant((next + 999) / 1000), nil
}
