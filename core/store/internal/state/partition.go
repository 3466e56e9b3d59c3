package state

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// partition is one partition of a queue, or of a topic with its subscriptions. A call is one step.
type partition struct {
	mu            sync.Mutex
	own           *entityState            // state of the queue or topic itself; nil after its deletion
	subscriptions map[string]*entityState // by subscription ID
	version       int64
	bytes         int64
	wakes         []wakeUp
	entityID      string
	index         uint16
	journal       Journal
	remembered    *remembered
	effects       *effects // effects of the current call; nil without a journal
	pieces        pieces   // set while the journal is replayed after a snapshot was loaded
	cleared       int      // counts calls of Clear; when it changes, a snapshot writes the partition again
}

// entityState is the state of a queue, topic or subscription in one partition.
type entityState struct {
	partition *partition
	ref       core.Ref
	queues    [core.SubQueues]*queue // created when first used
	seen      seenIDs
	moves     seenIDs
	history   history
	whole     int64 // see the parameter of this name of core.Rate.Take
}

// For "", entity returns the queue or topic. It returns nil after a deletion.
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
		delete(p.pieces, r.Subscription)
	}
}

func (p *partition) unsubscribe(r core.Ref, version int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version = version
	if b := p.subscriptions[r.Subscription]; b != nil {
		b.reset()
		delete(p.subscriptions, r.Subscription)
	}
}

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

func (b *entityState) evict() {
	b.forgetAll()
	for _, q := range b.queues {
		if q != nil {
			q.evict()
		}
	}
}

type handle struct {
	*Store
	core.Ref
	core.Policy
}

func (s *Store) Partition(r core.Ref, p core.Policy) core.Partition {
	return core.Partition{Ref: r, Policy: p, Operations: &handle{s, r, p}}
}

type txn struct {
	*partition
	*handle
	home  *entityState
	queue *queue
	now   int64

	end    Position // the journal's end when the call unlocked the partition
	newest Position // the latest position of the delivered messages' records
	absent []absent // delivered messages that are not in memory, in order
	pinned func()   // undoes Journal.Pin for the records of absent
}

// enter locks the partition, and does everything that is due in steps, between which it unlocks the
// partition. The caller must end the call with leave. ok is false if the partition does not exist.
func (p *handle) enter() (t txn, ok bool) { return p.enterWith(nil) }

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

// enterOnce does only one step of what is due, for calls whose answers do not depend on the rest.
func (p *handle) enterOnce(x *effects) (t txn, done, ok bool) {
	shard := p.lockPartition(p.Ref)
	if shard == nil {
		x.release()
		return txn{}, false, false
	}
	now := p.millis()
	p.beginAt(shard, x, now)
	home := shard.entity(p.Subscription)
	t = txn{partition: shard, handle: p, home: home, queue: home.queue(p.Sub), now: now}
	// The main queue comes first, because its sweep may add dead letters.
	budget := sweepMost
	done = (!p.Sub.IsDeadLetter() || t.sweep(home.queue(p.Sub-1), &budget)) && t.sweep(t.queue, &budget)
	if window := p.DuplicateWindow.Milliseconds(); window > 0 {
		home.forgetSome(&home.seen, t.now-window)
	}
	return t, done, true
}

// beginAt begins a call. x has the messages that Store.begin has prepared, or is nil. p is locked.
func (s *Store) beginAt(p *partition, x *effects, now int64) {
	if x == nil && s.journal != nil {
		x = s.newEffects()
	}
	if p.effects = x; x != nil {
		x.At(now, s.virtual)
	}
}

func (t *txn) pause() {
	t.effects.append()
	t.effects = nil
	t.unlockAndRing()
}

// lockPartition locks the partition of r, or returns nil if it does not exist.
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

// wakeUp is a request to call the functions that Watch has registered for a queue.
type wakeUp struct {
	queue   *queue
	session *session // nil: any receiver may find messages
}

func (t *txn) wakeReceivers(q *queue) {
	if !q.woken {
		q.woken = true
		t.wakes = append(t.wakes, wakeUp{queue: q})
	}
}

func (t *txn) wakeHolder(q *queue, x *session) {
	if !x.woken {
		x.woken = true
		t.wakes = append(t.wakes, wakeUp{q, x})
	}
}

func (t *txn) leave() {
	t.end = t.effects.append()
	t.effects.release()
	t.effects = nil
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
		for _, doorbell := range t.Store.doorbells.Of(r.queue.ref) {
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

func (p *handle) Take(_ context.Context, r core.Rate, n int) (granted int, again time.Time, err error) {
	shard := p.lockPartition(p.Ref)
	if shard == nil {
		return 0, time.Time{}, p.stopped()
	}
	defer shard.mu.Unlock()
	home := shard.entity(p.Subscription)
	var next int64
	granted, home.whole, next = r.Take(home.whole, p.millis()*1000, n)
	return granted, core.Instant((next + 999) / 1000), nil
}
