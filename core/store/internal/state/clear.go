package state

import (
	"context"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
)

// Clear removes all messages of a partition, with what is known of them.
func (p *handle) Clear(ctx context.Context) error {
	if p.Subscription != "" {
		return fmt.Errorf("clear subscription %s of %s/%d: %w", p.Subscription, p.Entity, p.Index, core.NotAllowed)
	}
	shard := p.lockPartition(p.Ref)
	if shard == nil {
		return nil
	}
	t := txn{partition: shard, handle: p}
	if p.beginAt(shard, nil, p.millis()); shard.effects != nil {
		shard.effects.do(Effect{Kind: EffectClear, Of: shard.own.ref})
	}
	t.clearAll()
	t.leave()
	return t.wait(ctx)
}

// clearAll clears the queue or topic, and its subscriptions.
func (t *txn) clearAll() {
	t.clear(t.own)
	for _, b := range t.subscriptions {
		t.clear(b)
	}
	t.bytes = 0
	t.cleared++
}

// clear puts new queues in the place of a entityState's, which go on with their
// numbers.
func (t *txn) clear(b *entityState) {
	b.forgetAll()
	for sub, old := range b.queues {
		if old == nil {
			continue
		}
		b.queues[sub] = nil
		old.evict()
		q := b.queue(core.SubQueue(sub))
		q.last, q.cursor = old.last, old.last
		if _, held := old.held.first(); held {
			t.wakeReceivers(q) // the holder of a session must learn that its lock is lost
		}
	}
}
