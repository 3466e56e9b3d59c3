package delivery

import (
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

const (
	firstPeek = 8
	PeekBytes = 256 << 10
	PeekPage  = 256
	MaxPurge  = 4000
)

func (e *Entity) noteSettled(ctx context.Context, sub core.SubQueue, settlements []core.Settlement, errs []error) {
	e.traffic.Queues[sub].Settle(settlements, errs)
	if sub == core.Main {
		e.Circuit().Settled(ctx, settlements, errs)
	}
}

func (e *Entity) Settle(ctx context.Context, sub core.SubQueue, settlements []core.Settlement) []error {
	v := e.View()
	partitions := v.Queues[sub]
	if p, ok := entity.OnlyPartition(settlements, len(partitions), entity.PartitionOfSettlement); ok {
		return e.settle(ctx, v, &partitions[p], settlements)
	}
	lost := entity.ErrLockLost
	return entity.ByPartition(partitions, settlements, entity.PartitionOfSettlement, lost, func(p *core.Partition, part []core.Settlement) []error {
		return e.settle(ctx, v, p, part)
	})
}

func (e *Entity) settle(ctx context.Context, v *entity.View, p *core.Partition, settlements []core.Settlement) []error {
	if core.SetBytes(settlements) > 0 {
		limited, err := e.WithQuota(ctx, *p)
		if err != nil {
			return slices.Repeat([]error{err}, len(settlements))
		}
		p = &limited
	}
	errs := p.Settle(ctx, settlements)
	e.noteSettled(ctx, p.Sub, settlements, errs)
	return e.Locks(errs, v)
}

// SettleAll skips deliveries without a lock.
func (e *Entity) SettleAll(ctx context.Context, sub core.SubQueue, ds []core.Delivery, o core.Outcome) []error {
	settlements := make([]core.Settlement, 0, len(ds))
	for i := range ds {
		if !ds[i].LockToken.IsZero() {
			settlements = append(settlements, core.Settlement{Token: ds[i].LockToken, Outcome: o})
		}
	}
	return e.Settle(ctx, sub, settlements)
}

// RemoveLocked completes deliveries, and returns those that it has removed; it releases the others.
// It fails only if it could remove none, because what it has removed cannot be restored.
func (e *Entity) RemoveLocked(ctx context.Context, sub core.SubQueue, ds []core.Delivery) (gone []core.Delivery, failure error) {
	var kept []core.Delivery
	gone = ds[:0]
	for i, err := range e.SettleAll(ctx, sub, ds, core.Complete) {
		d := ds[i]
		if err != nil {
			kept, failure = append(kept, d), err
			continue
		}
		d.LockToken, d.LockedUntil = core.LockToken{}, time.Time{}
		gone = append(gone, d)
	}
	if len(kept) > 0 {
		e.SettleAll(ctx, sub, kept, core.Release)
	}
	if len(gone) > 0 {
		failure = nil
	}
	return gone, failure
}

// Peek appends messages of p to found, until there are limit messages or PeekBytes in total. It
// first asks for firstPeek messages. Each further call asks for twice as many, but not for more
// than the parameter most, so that large messages do not fill memory.
func Peek(ctx context.Context, p core.Partition, r core.PeekRequest, found []core.Delivery, limit, most int) ([]core.Delivery, error) {
	size := core.SizeOf(found)
	for r.Max = min(firstPeek, most); len(found) < limit && size < PeekBytes; r.Max = min(2*r.Max, most) {
		r.Max = min(r.Max, limit-len(found))
		ds, err := p.Peek(ctx, r)
		if err != nil {
			return found, err
		}
		for i := 0; i < len(ds) && size < PeekBytes; i++ {
			found, size = append(found, ds[i]), size+ds[i].Size()
		}
		if len(ds) < r.Max {
			break
		}
		_, r.From = core.SplitSequenceNumber(ds[len(ds)-1].SequenceNumber)
		r.From++
	}
	return found, nil
}

// Purge removes up to limit messages of p, or only of the session if under is not nil, whose
// EnqueuedTime is earlier than the parameter before. Newer messages that it has locked stay locked
// until Purge ends, so that it finds each message once.
func (e *Entity) Purge(ctx context.Context, p core.Partition, under *core.SessionLock, before time.Time, limit int, by core.Party) (removed int, err error) {
	var young []core.Delivery
	defer func() {
		if len(young) > 0 {
			e.SettleAll(context.WithoutCancel(ctx), p.Sub, young, core.Release)
		}
	}()
	for removed < limit && len(young) < MaxLock {
		most := core.Most{Messages: min(limit-removed, MaxLock), Bytes: MaxLockBytes}
		ds, next, err := p.Lock(ctx, core.LockRequest{Most: most, Session: under})
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
		errs := p.Settle(ctx, settlements)
		e.traffic.Queues[p.Sub].Settle(settlements, errs)
		e.audit.Settled(e.View(), p.Sub, settlements, errs, by)
		for _, err := range errs {
			if err == nil {
				removed++
			}
		}
		if !most.Left(ds, next, e.Now) {
			break
		}
	}
	return removed, nil
}
