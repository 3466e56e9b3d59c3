package broker

import (
	"cmp"
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// peekBytes bounds what a Peek returns, except for its last message.
	peekBytes = 256 << 10
	// firstPeek is how many messages a Peek asks the store for first. Each further call asks for
	// twice as many, up to lastPeek, so that large messages do not fill the memory.
	firstPeek = 8
	lastPeek  = 256
	// peekRead is how many bytes the store reads at most for one of these calls.
	peekRead = 32 << 20
	// purgeLock is how long Purge locks the messages that it looks at.
	purgeLock = 10 * time.Second
	maxPurge  = 4000
)

// open finds the entity of an operation that receives or browses messages.
func (b *Broker) open(ctx context.Context, id core.Identity, address string) (*entry, *view, core.SubQueue, error) {
	e, a, err := b.access(ctx, id, core.Listen, address)
	if err != nil {
		return nil, nil, 0, err
	}
	v := e.current.Load()
	if !v.Settings.Status.CanReceive() {
		return nil, nil, 0, disabled(v.Name)
	}
	e.use()
	return e, v, a.Sub, nil
}

// Peek implements core.Broker. It begins in the partition of from and goes on through the
// partitions behind it. The answer is bounded by limit and by peekBytes.
func (b *Broker) Peek(ctx context.Context, id core.Identity, address string, from int64, limit int) ([]core.Delivery, error) {
	_, v, sub, err := b.open(ctx, id, address)
	if err != nil {
		return nil, err
	}
	var found []core.Delivery
	most := int(max(1, min(lastPeek, peekRead/b.largestMessage(ctx, v))))
	index, n := core.SplitSequenceNumber(max(from, 0))
	for size := 0; int(index) < len(v.partitions[sub]); index, n = index+1, 0 {
		for ask, asked := min(firstPeek, most), 0; limit > len(found); ask = min(2*ask, most) {
			asked = min(ask, limit-len(found))
			ds, err := b.store.Peek(ctx, v.partitions[sub][index], n, asked)
			if err != nil {
				if len(found) > 0 {
					return found, nil // the next Peek reports the error
				}
				return nil, b.refusal(err, &v.Entity)
			}
			for _, d := range ds {
				found = append(found, d)
				if size += d.Size(); size >= peekBytes {
					return found, nil
				}
			}
			if len(ds) < asked {
				break
			}
			_, n = core.SplitSequenceNumber(ds[len(ds)-1].SequenceNumber)
			n++
		}
	}
	return found, nil
}

// largestMessage is the size that messages of the entity have at most.
func (b *Broker) largestMessage(ctx context.Context, v *view) int64 {
	if v.Kind == core.Subscription {
		topic, _, _ := core.SplitSubscription(v.Name)
		e, err := b.entity(ctx, topic)
		if err != nil {
			return core.MaxMessageSizeKB << 10
		}
		v = e.current.Load()
	}
	return v.maxMessage
}

func partitionOfNumber(n *int64) uint16 {
	index, _ := core.SplitSequenceNumber(*n)
	return index
}

// ReceiveDeferred implements core.Broker. If one partition refuses, the locks of the others are
// released.
func (b *Broker) ReceiveDeferred(ctx context.Context, id core.Identity, address string, numbers []int64, mode core.ReceiveMode) ([]core.Delivery, error) {
	e, v, sub, err := b.open(ctx, id, address)
	if err != nil {
		return nil, err
	}
	if err := v.sessionless(sub); err != nil {
		return nil, err
	}
	groups, strays := groupByPartition(numbers, len(v.partitions[sub]), partitionOfNumber)
	if len(strays) > 0 {
		return nil, errNoNumber
	}
	found := make([]core.Delivery, len(numbers))
	errs := make([]error, len(v.partitions[sub]))
	eachGroup(groups, func(p *partitionGroup[int64]) {
		ds, err := b.store.LockDeferred(ctx, v.partitions[sub][p.partition], p.items, nil)
		errs[p.partition] = err
		for i, d := range ds {
			found[p.index(i)] = d
		}
	})
	for _, err := range errs {
		if err != nil {
			e.settleAll(context.WithoutCancel(ctx), sub, found, core.Release)
			return nil, b.refusal(err, &v.Entity)
		}
	}
	e.traffic.queues[sub].delivered.Add(int64(len(found)))
	e.noteDelivered(sub, found, e.party(ctx, id, core.Listen))
	if mode == core.ReceiveAndDelete {
		return e.removeLocked(ctx, sub, found)
	}
	return found, nil
}

// settleAll settles the deliveries that are locked.
func (e *entry) settleAll(ctx context.Context, sub core.SubQueue, ds []core.Delivery, o core.Outcome) []error {
	settlements := make([]core.Settlement, 0, len(ds))
	for i := range ds {
		if !ds[i].LockToken.IsZero() {
			settlements = append(settlements, core.Settlement{Token: ds[i].LockToken, Outcome: o})
		}
	}
	return e.settle(ctx, sub, settlements)
}

// removeLocked completes deliveries. Removed messages cannot be brought back, so the call fails
// only if none could be removed.
func (e *entry) removeLocked(ctx context.Context, sub core.SubQueue, ds []core.Delivery) ([]core.Delivery, error) {
	gone := ds[:0]
	var failure error
	for i, err := range e.settleAll(ctx, sub, ds, core.Complete) {
		if err != nil {
			failure = err
			continue
		}
		d := ds[i]
		d.LockToken, d.LockedUntil = core.LockToken{}, time.Time{}
		gone = append(gone, d)
	}
	if len(gone) == 0 {
		return nil, failure
	}
	return gone, nil
}

// Cancel implements core.Broker. It ignores the queue's status. In each partition it cancels all
// numbers or none; it returns the first refusal.
func (b *Broker) Cancel(ctx context.Context, id core.Identity, address string, numbers []int64) error {
	e, a, err := b.access(ctx, id, core.Send, address)
	if err != nil {
		return err
	}
	e.use()
	v := e.current.Load()
	partitions := v.partitions[a.Sub]
	groups, strays := groupByPartition(numbers, len(partitions), partitionOfNumber)
	if len(strays) > 0 {
		return errNoNumber
	}
	errs := make([]error, len(partitions))
	eachGroup(groups, func(p *partitionGroup[int64]) {
		errs[p.partition] = b.store.Cancel(ctx, partitions[p.partition], p.items)
	})
	for _, err := range errs {
		if err != nil {
			return b.refusal(err, &v.Entity)
		}
	}
	e.traffic.cancelled.Add(int64(len(numbers)))
	e.noteCancelled(a.Sub, numbers, e.party(ctx, id, core.Send))
	return nil
}

// Purge implements core.Broker. If before is in the future, the store removes messages without
// reading them, unless the entity has a history, which notes the client. Otherwise one call removes
// at most maxPurge messages.
func (b *Broker) Purge(ctx context.Context, id core.Identity, address string, before time.Time, limit int) (int, error) {
	e, v, sub, err := b.open(ctx, id, address)
	if err != nil {
		return 0, err
	}
	if err := v.receivable(sub); err != nil {
		return 0, err
	}
	if before.After(b.store.Now()) && !e.history {
		n, err := e.purgeAll(ctx, v.partitions[sub], b.options.Limits.Purge(limit))
		if n > 0 {
			return n, nil // the next call reports the error
		}
		return 0, b.refusal(err, &v.Entity)
	}
	limit = b.options.Limits.Purge(min(limit, maxPurge))
	by := e.party(ctx, id, core.Listen)
	removed := 0
	for _, p := range v.partitions[sub] {
		p.LockDuration = purgeLock
		lock := func(n int) ([]core.Delivery, error) {
			ds, _, err := e.b.store.Lock(ctx, p, n)
			return ds, err
		}
		n, err := e.purge(ctx, p, nil, lock, before, limit-removed, by)
		removed += n
		if err != nil {
			if removed > 0 {
				return removed, nil // the next call reports the error
			}
			return 0, b.refusal(err, &v.Entity)
		}
	}
	return removed, nil
}

// purgeAll removes up to limit messages of partitions, whatever their age.
func (e *entry) purgeAll(ctx context.Context, partitions []core.Partition, limit int) (removed int, err error) {
	for _, p := range partitions {
		if removed >= limit {
			break
		}
		n, failure := e.b.store.Purge(ctx, p, limit-removed)
		e.traffic.queues[p.Sub].settled[core.Complete].Add(int64(n))
		removed += n
		err = cmp.Or(err, failure)
	}
	return removed, err
}

// purge removes up to limit messages of one partition, or of the session of that lock; lock locks
// them. Messages that are too young stay locked until the end, so that no message is met twice.
func (e *entry) purge(ctx context.Context, p core.Partition, under *core.SessionLock, lock func(int) ([]core.Delivery, error),
	before time.Time, limit int, by core.Party,
) (removed int, err error) {
	var young []core.Delivery
	defer func() {
		if len(young) > 0 {
			e.settleAll(context.WithoutCancel(ctx), p.Sub, young, core.Release)
		}
	}()
	for removed < limit && len(young) < maxLock {
		asked := min(limit-removed, maxLock)
		ds, err := lock(asked)
		if err != nil {
			return removed, err
		}
		settlements := make([]core.Settlement, 0, len(ds))
		for _, d := range ds {
			if d.EnqueuedTime.Before(before) {
				settlements = append(settlements, core.Settlement{Token: d.LockToken, Session: under})
			} else {
				young = append(young, d)
			}
		}
		errs := e.b.store.Settle(ctx, p, settlements)
		e.traffic.queues[p.Sub].settle(settlements, errs)
		e.noteSettled(p.Sub, settlements, errs, by)
		for _, err := range errs {
			if err == nil {
				removed++
			}
		}
		if len(ds) < asked {
			break
		}
	}
	return removed, nil
}
