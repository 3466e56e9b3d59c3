package memstore

import (
	"context"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
)

// Clear removes all messages of a partition, with what is known of them.
func (s *Store) Clear(_ context.Context, p core.Partition) error {
	if p.Subscription != "" {
		return fmt.Errorf("clear subscription %s of %s/%d: %w", p.Subscription, p.Entity, p.Index, core.NotAllowed)
	}
	shard := s.partition(p.Ref)
	if shard == nil {
		return nil
	}
	shard.mu.Lock()
	t := txn{partition: shard, store: s, ref: p.Ref}
	defer t.leave()
	if shard.own == nil {
		return nil
	}
	t.clear(shard.own)
	for _, b := range shard.subscriptions {
		t.clear(b)
	}
	shard.bytes = 0
	return nil
}

// clear puts new queues in the place of a entityState's, which go on with their
// numbers.
func (t *txn) clear(b *entityState) {
	b.seen, b.moves, b.history = seenIDs{}, seenIDs{}, history{}
	for sub, old := range b.queues {
		if old == nil {
			continue
		}
		b.queues[sub] = nil
		q := b.queue(core.SubQueue(sub))
		q.last, q.cursor = old.last, old.last
		if _, held := old.held.first(); held {
			t.wakeReceivers(q) // the holder of a session must learn that its lock is lost
		}
	}
}
