package broker

import (
	"cmp"
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// peekBytes is how much a Peek returns, but for its last message.
	peekBytes = 256 << 10
	// firstPeek is how many messages a Peek asks the store for at first; each
	// further call asks for twice as many, so large messages do not pile up.
	firstPeek = 8
	lastPeek  = 256
	// purgeLock is how long Purge holds what it looks at.
	purgeLock = 10 * time.Second
	maxPurge  = 4000
)

// open finds the entity of an operation that takes messages out or looks at them.
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

// Peek implements core.Broker. It begins in the partition that from lies in and
// goes on through those that follow; the answer is bounded by max and by size.
func (b *Broker) Peek(ctx context.Context, id core.Identity, address string, from int64, limit int) ([]core.Delivery, error) {
	_, v, sub, err := b.open(ctx, id, address)
	if err != nil {
		return nil, err
	}
	var found []core.Delivery
	index, n := core.SplitSequenceNumber(max(from, 0))
	for size := 0; int(index) < len(v.partitions[sub]); index, n = index+1, 0 {
		for ask, asked := firstPeek, 0; limit > len(found); ask = min(2*ask, lastPeek) {
			asked = min(ask, limit-len(found))
			ds, err := b.store.Peek(ctx, v.partitions[sub][index], n, asked)
			if err != nil {
				if len(found) > 0 {
					return found, nil // the next Peek tells
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

func partitionOfNumber(n *int64) uint16 {
	index, _ := core.SplitSequenceNumber(*n)
	return index
}

// ReceiveDeferred implements core.Broker. When one partition refuses, the locks
// that others gave are released.
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

// settleAll ends the locks of those deliveries that are any.
func (e *entry) settleAll(ctx context.Context, sub core.SubQueue, ds []core.Delivery, o core.Outcome) []error {
	settlements := make([]core.Settlement, 0, len(ds))
	for i := range ds {
		if !ds[i].LockToken.IsZero() {
			settlements = append(settlements, core.Settlement{Token: ds[i].LockToken, Outcome: o})
		}
	}
	return e.settle(ctx, sub, settlements)
}

// removeLocked completes deliveries. Those already gone cannot be brought back,
// so only when none could be removed the call fails.
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

// Cancel implements core.Broker, whatever the queue's status. Where numbers of several partitions are given
// it is all or none in each partition; the first refusal is returned.
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

// Purge implements core.Broker. Where all messages were enqueued before the given
// time the store removes them without reading them, unless their history is
// remembered with who removed them. Otherwise it removes at most 4000 in one call.
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
			return n, nil // what is gone is gone; the next call tells
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
				return removed, nil // what is gone is gone; the next call tells
			}
			return 0, b.refusal(err, &v.Entity)
		}
	}
	return removed, nil
}

// purgeAll removes up to limit messages of partitions, whenever they were enqueued.
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

// purge removes up to limit messages of one partition, or of the session of that
// lock, which lock locks. Messages that are too young stay locked until it is
// through, so that it meets none twice.
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
