package memstore

import (
	"sync"

	"github.com/crosstown-mq/crosstown/core"
)

// partition is one shard of a queue, or of a topic with its subscriptions: all
// that changes together.
type partition struct {
	mu            sync.Mutex
	own           *branch            // of the queue or topic itself; nil when it is deleted
	subscriptions map[string]*branch // of a topic, by ID
	version       int64              // of the topic's subscriptions
	bytes         int64              // in all main queues
	rings         []ring             // of the turn under way
}

// branch is what one queue, topic or subscription has of a partition.
type branch struct {
	partition *partition
	ref       core.Ref               // of its main queue
	queues    [core.SubQueues]*queue // nil until they are needed
	seen      sightings              // message ids, for duplicate detection
	moves     sightings              // keys of the moves that ended here
	history   history
}

func newPartition(r core.Ref) *partition {
	p := &partition{}
	p.own = &branch{partition: p, ref: r}
	return p
}

// branch returns what the queue, topic or subscription has here, or nil if it is
// no more.
func (p *partition) branch(subscription string) *branch {
	if subscription == "" {
		return p.own
	}
	return p.subscriptions[subscription]
}

// queue returns a sub-queue.
func (b *branch) queue(sub core.SubQueue) *queue {
	q := b.queues[sub]
	if q == nil {
		q = &queue{home: b, ref: b.ref}
		q.ref.Sub = sub
		if sub == core.Main {
			q.sum = &b.partition.bytes
		}
		b.queues[sub] = q
	}
	return q
}

// subscribe begins a new version of the topic's subscriptions, with that one
// among them.
func (p *partition) subscribe(r core.Ref, version int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version = version
	if p.subscriptions == nil {
		p.subscriptions = make(map[string]*branch)
	}
	if p.subscriptions[r.Subscription] == nil {
		p.subscriptions[r.Subscription] = &branch{partition: p, ref: r}
	}
}

// unsubscribe begins a new version of the topic's subscriptions, without that one.
func (p *partition) unsubscribe(r core.Ref, version int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version = version
	if b := p.subscriptions[r.Subscription]; b != nil {
		p.bytes -= b.queue(core.Main).bytes
		delete(p.subscriptions, r.Subscription)
	}
}

// drop forgets everything and turns later operations away.
func (p *partition) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own, p.subscriptions = nil, nil
}

// turn is one operation's exclusive hold of a partition, at one instant.
type turn struct {
	*partition
	store *Store
	ref   core.Ref
	core.Policy
	home  *branch // the one that ref lies in
	queue *queue  // the one that ref names
	now   int64
}

// enter waits for the partition, begins a turn and sweeps. The caller must
// leave it. It returns false, and no turn, when the partition does not exist.
func (s *Store) enter(p core.Partition) (t turn, ok bool) {
	shard := s.partition(p.Ref)
	if shard == nil {
		return turn{}, false
	}
	shard.mu.Lock()
	home := shard.branch(p.Subscription)
	if home == nil {
		shard.mu.Unlock()
		return turn{}, false
	}
	t = turn{partition: shard, store: s, ref: p.Ref, Policy: p.Policy, home: home, queue: home.queue(p.Sub), now: s.millis()}
	if p.Sub.IsDeadLetter() {
		// First: what that sweep dead-letters must be seen here.
		t.sweep(home.queue(p.Sub - 1))
	}
	t.sweep(t.queue)
	if window := p.DuplicateWindow.Milliseconds(); window > 0 {
		home.forgetIDs(t.now - window)
	}
	return t, true
}

// ring is a call of the doorbells of a queue, for one session or for none.
type ring struct {
	queue   *queue
	session *session // nil: none
}

// ring rings for messages, or sessions, that anybody may have.
func (t *turn) ring(q *queue) {
	if !q.rung {
		q.rung = true
		t.rings = append(t.rings, ring{queue: q})
	}
}

// ringHolder rings for messages that only the holder of x may have.
func (t *turn) ringHolder(q *queue, x *session) {
	if !x.rung {
		x.rung = true
		t.rings = append(t.rings, ring{q, x})
	}
}

// leave ends the turn and rings the doorbells.
func (t *turn) leave() {
	type call struct {
		bell    *func(core.SessionKey)
		session core.SessionKey
	}
	var calls []call
	for _, r := range t.rings {
		session := core.SessionKey("")
		if r.session == nil {
			r.queue.rung = false
		} else {
			r.session.rung, session = false, r.session.key
		}
		for _, bell := range t.store.bells.of(r.queue.ref) {
			calls = append(calls, call{bell, session})
		}
	}
	clear(t.rings)
	t.rings = t.rings[:0]
	t.mu.Unlock()
	for _, c := range calls {
		(*c.bell)(c.session)
	}
}

// number is the sequence number of the message at position n.
func (t *turn) number(n int64) int64 { return core.SequenceNumber(t.ref.Index, n) }
