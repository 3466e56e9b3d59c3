package broker

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

const (
	deadLettersInterval = time.Minute
	oldPage             = 8 // dead letters that one call reads to find old ones
)

type oldDeadLetters struct {
	mu  sync.Mutex // held for a whole call of removeDeadLetters
	set *Selected
	due map[string]time.Time // by entity ID: the earliest time at which a dead letter can be old
}

// removeDeadLetters removes dead letters that are older than the configuration allows. It reads
// only entities that may have some: a dead letter that arrives later becomes old later. All
// gateways do this; the one that locks a message removes it.
func (b *Broker) removeDeadLetters(ctx context.Context) {
	o := &b.oldDead
	o.mu.Lock()
	defer o.mu.Unlock()
	set, now := b.selected.Load(), b.store.Now()
	if o.set != set {
		o.set, o.due = set, nil
	}
	if len(set.DeadLetters) == 0 {
		return
	}
	due := map[string]time.Time{}
	err := b.walk(ctx, func(ent *core.Entity) {
		keep := entity.First(set.DeadLetters, ent.Name)
		if keep == nil {
			return
		}
		at := o.due[ent.ID]
		if !at.After(now) || at.After(now.Add(*keep)) { // the second condition: the clock was set back
			at = b.removeDeadLettersOf(ctx, ent.Name, now, *keep)
		}
		due[ent.ID] = at
	})
	if err != nil && ctx.Err() == nil {
		b.log.Warn("cannot list entities to remove their old dead letters; trying again later", "err", err)
	}
	o.due = due
}

// removeDeadLettersOf removes old dead letters. due is when others become old, or now if one is
// locked or the store does not answer.
func (b *Broker) removeDeadLettersOf(ctx context.Context, name string, now time.Time, keep time.Duration) (due time.Time) {
	e, err := b.entity(ctx, name)
	if err != nil {
		return now
	}
	v, removed := e.View(), 0
	page := int(max(1, min(oldPage, peekRead/b.largestMessage(ctx, v))))
	due = now.Add(keep)
	for _, sub := range [...]core.SubQueue{core.DeadLetter, core.TransferDeadLetter} {
		for _, p := range v.Queues[sub] {
			p.LockDuration, p.BrokerLocks = purgeLock, true
			n, at := e.removeOldIn(ctx, p.In(b.store), page, now, keep)
			removed, due = removed+n, earlier(due, at)
		}
	}
	if removed > 0 {
		b.log.Info("removed old dead letters", "entity", v.Name, "messages", removed, "keep", keep)
	}
	return due
}

// removeOldIn removes dead letters that are at least keep old, up to the first younger one.
func (e *entry) removeOldIn(ctx context.Context, p core.Partition, page int, now time.Time, keep time.Duration) (removed int, due time.Time) {
	due = now.Add(keep)
	for from := int64(0); ; {
		ds, err := p.Peek(ctx, core.PeekRequest{From: from, Max: page})
		if err != nil {
			return removed, now
		}
		var old []int64
		for i := range ds {
			since := ds[i].DeadLetteredTime
			if since.IsZero() { // it was appended as a dead letter, or by an earlier version
				since = ds[i].EnqueuedTime
			}
			if at := since.Add(keep); at.After(now) {
				due = earlier(due, at)
				break
			}
			old = append(old, ds[i].SequenceNumber)
		}
		n := e.removeOld(ctx, p, old, keep)
		if removed += n; n < len(old) {
			due = now
		}
		if len(old) < page {
			return removed, due
		}
		_, from = core.SplitSequenceNumber(old[page-1])
		from++
	}
}

func (e *entry) removeOld(ctx context.Context, p core.Partition, numbers []int64, keep time.Duration) (removed int) {
	if len(numbers) == 0 {
		return 0
	}
	ds, _, err := p.Lock(ctx, core.LockRequest{Numbers: numbers})
	settlements := make([]core.Settlement, len(ds))
	for i := range ds {
		settlements[i].Token = ds[i].LockToken
	}
	errs := p.Settle(ctx, settlements)
	e.traffic.Queues[p.Sub].Settle(settlements, errs)
	e.audit.Settled(e.View(), p.Sub, settlements, errs, core.Party{Peer: "the gateway, which keeps dead letters for " + keep.String()})
	for _, failure := range errs {
		if err = cmp.Or(err, failure); failure == nil {
			removed++
		}
	}
	if err != nil && core.CodeOf(err) != core.LockLost && ctx.Err() == nil {
		e.b.log.Warn("cannot remove an old dead letter; trying again later", "entity", e.View().Name, "err", err)
	}
	return removed
}
