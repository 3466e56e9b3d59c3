package memstore

import (
	"sync"

	"github.com/crosstown-mq/crosstown/core"
)

// partition is one shard of an entity: its main queue and its dead letters,
// which change together.
type partition struct {
	mu      sync.Mutex
	dropped bool // the entity is deleted
	main    *queue
	dead    *queue
	seen    sightings
}

func newPartition() *partition {
	return &partition{main: newQueue(core.Main), dead: newQueue(core.DeadLetter)}
}

// drop forgets everything and turns later operations away.
func (p *partition) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped, p.main, p.dead, p.seen = true, nil, nil, sightings{}
}

// turn is one operation's exclusive hold of a partition, at one instant.
type turn struct {
	*partition
	store *Store
	ref   core.Ref
	core.Policy
	queue *queue // the one that ref names
	now   int64
	rings [2]bool // by sub-queue: messages may have become available
}

// enter waits for the partition, begins a turn and sweeps. The caller must
// leave it. It returns false, and no turn, when the partition does not exist.
func (s *Store) enter(p core.Partition) (t turn, ok bool) {
	shard := s.partition(p.Ref)
	if shard == nil {
		return turn{}, false
	}
	shard.mu.Lock()
	if shard.dropped {
		shard.mu.Unlock()
		return turn{}, false
	}
	t = turn{partition: shard, store: s, ref: p.Ref, Policy: p.Policy, queue: shard.main, now: s.millis()}
	t.sweep(t.main)
	if p.Sub == core.DeadLetter {
		// Only now: what the main queue's sweep has dead-lettered must be seen here.
		t.queue = t.dead
		t.sweep(t.dead)
	}
	return t, true
}

// leave ends the turn and rings the doorbells.
func (t *turn) leave() {
	t.mu.Unlock()
	for sub, ring := range t.rings {
		if ring {
			t.ref.Sub = core.SubQueue(sub)
			for _, f := range t.store.bells.of(t.ref) {
				(*f)("")
			}
		}
	}
}

// number is the sequence number of the message at position n.
func (t *turn) number(n int64) int64 { return core.SequenceNumber(t.ref.Index, n) }
