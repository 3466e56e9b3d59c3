package broker

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/delivery"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

const (
	peekRead  = 32 << 20
	purgeLock = 10 * time.Second
	moveLock  = 5 * time.Minute
)

func (b *Broker) open(ctx context.Context, id core.Identity, a core.Address) (*entry, *entity.View, core.SubQueue, error) {
	e, err := b.access(ctx, id, core.Listen, a)
	if err != nil {
		return nil, nil, 0, err
	}
	v := e.View()
	if !v.Settings.Status.CanReceive() {
		return nil, nil, 0, entity.Disabled(v.Name)
	}
	e.Use()
	return e, v, a.Sub, nil
}

// Peek implements core.Broker. It starts at the sequence number from, in the partition of that
// number, and continues in the following partitions. limit and delivery.PeekBytes bound the result.
func (b *Broker) Peek(ctx context.Context, id core.Identity, a core.Address, state *core.State, from int64, limit int) ([]core.Delivery, error) {
	_, v, sub, err := b.open(ctx, id, a)
	if err != nil {
		return nil, err
	}
	var found []core.Delivery
	most := int(max(1, min(delivery.PeekPage, peekRead/b.largestMessage(ctx, v))))
	index, n := core.SplitSequenceNumber(max(from, 0))
	for ; int(index) < len(v.Queues[sub]); index, n = index+1, 0 {
		found, err = delivery.Peek(ctx, v.Queues[sub][index], core.PeekRequest{From: n, State: state}, found, limit, most)
		switch {
		case err != nil && len(found) == 0:
			return nil, b.ns.Refusal(err, &v.Entity)
		case err != nil:
			return found, nil // the next Peek returns the error
		}
	}
	return found, nil
}

// PeekDamaged returns damaged messages, which are not delivered. The caller needs the Listen right.
func (b *Broker) PeekDamaged(ctx context.Context, id core.Identity, a core.Address, from int64, limit int) ([]core.DamagedMessage, error) {
	_, v, sub, err := b.open(ctx, id, a)
	if err != nil {
		return nil, err
	}
	var found []core.DamagedMessage
	index, n := core.SplitSequenceNumber(max(from, 0))
	for ; int(index) < len(v.Queues[sub]) && len(found) < limit; index, n = index+1, 0 {
		some, err := v.Queues[sub][index].PeekDamaged(ctx, n, limit-len(found))
		if err != nil {
			return nil, b.ns.Refusal(err, &v.Entity)
		}
		found = append(found, some...)
	}
	return found, nil
}

func (b *Broker) largestMessage(ctx context.Context, v *entity.View) int64 {
	v, err := b.rooted(ctx, v)
	if err != nil {
		return core.MaxMessageSizeKB << 10
	}
	return v.MaxMessage
}

// rooted returns the topic of a subscription, and other entities unchanged.
func (b *Broker) rooted(ctx context.Context, v *entity.View) (*entity.View, error) {
	if v.Kind != core.Subscription {
		return v, nil
	}
	topic, _, _ := core.SplitSubscription(v.Name)
	return b.find(ctx, topic)
}

// If one partition refuses, ReceiveDeferred releases the locks in the others.
func (b *Broker) ReceiveDeferred(ctx context.Context, id core.Identity, a core.Address, numbers []int64, mode core.ReceiveMode) ([]core.Delivery, error) {
	e, v, sub, err := b.open(ctx, id, a)
	if err != nil {
		return nil, err
	}
	if err := v.Sessionless(sub); err != nil {
		return nil, err
	}
	if !entity.AllBelow(numbers, len(v.Queues[sub]), entity.PartitionOfNumber) {
		return nil, b.unknown(ctx, v.Queues[sub], core.Deferred, numbers, nil)
	}
	errs := make([]error, len(v.Queues[sub]))
	found := entity.ByPartition(v.Queues[sub], numbers, entity.PartitionOfNumber, core.Delivery{}, func(p *core.Partition, part []int64) []core.Delivery {
		ds, _, err := p.Lock(ctx, core.LockRequest{Numbers: part, Deferred: true})
		errs[p.Index] = err
		return ds
	})
	if err := cmp.Or(errs...); err != nil {
		e.receivers.SettleAll(context.WithoutCancel(ctx), sub, found, core.Release)
		if core.CodeOf(err) == core.MessageNotFound {
			return nil, b.unknown(ctx, v.Queues[sub], core.Deferred, numbers, errs)
		}
		return nil, b.ns.Refusal(err, &v.Entity)
	}
	e.traffic.Queues[sub].Delivered.Add(int64(len(found)))
	e.audit.Delivered(v, sub, found, e.audit.Party(ctx, id, core.Listen, v))
	if mode == core.ReceiveAndDelete {
		return e.receivers.RemoveLocked(ctx, sub, found)
	}
	return found, nil
}

// A refusal names up to maxNamed unknown sequence numbers; at most maxSought are looked up.
const (
	maxNamed  = 10
	maxSought = 100
)

// unknown returns an error that names the numbers without a message in the given state. errs, if
// not nil, has the error of each partition; without an error, a partition knows all of its numbers.
func (b *Broker) unknown(ctx context.Context, partitions []core.Partition, state core.State, numbers []int64, errs []error) error {
	var names []string
	for _, n := range numbers[:min(len(numbers), maxSought)] {
		index, position := core.SplitSequenceNumber(n)
		if int(index) < len(partitions) {
			if errs != nil && errs[index] == nil {
				continue
			}
			ds, err := partitions[index].Peek(ctx, core.PeekRequest{From: position, Max: 1, State: new(state)})
			if err != nil || len(ds) > 0 && ds[0].SequenceNumber == n {
				continue
			}
		}
		if len(names) == maxNamed {
			names[len(names)-1] += " and others"
			break
		}
		names = append(names, strconv.FormatInt(n, 10))
	}
	do := "do not exist, or are not"
	switch {
	case len(names) == 0:
		return entity.ErrNoNumber
	case len(names) == 1:
		do = "does not exist, or is not"
	}
	return core.Refuse(core.MessageNotFound, "The message with the given sequence number could not be found: %s %s %s.", strings.Join(names, ", "), do, strings.ToLower(state.String()))
}

// Cancel works whatever the status of the queue. Each partition cancels all of its numbers or none.
// Cancel returns the first refusal.
func (b *Broker) Cancel(ctx context.Context, id core.Identity, a core.Address, numbers []int64) error {
	e, err := b.access(ctx, id, core.Send, a)
	if err != nil {
		return err
	}
	e.Use()
	v := e.View()
	partitions := v.Queues[a.Sub]
	if !entity.AllBelow(numbers, len(partitions), entity.PartitionOfNumber) {
		return b.unknown(ctx, partitions, core.Scheduled, numbers, nil)
	}
	errs := make([]error, len(partitions))
	entity.ByPartition(partitions, numbers, entity.PartitionOfNumber, nil, func(p *core.Partition, part []int64) []error {
		errs[p.Index] = p.Cancel(ctx, part)
		return nil
	})
	for _, err := range errs {
		if core.CodeOf(err) == core.MessageNotFound {
			return b.unknown(ctx, partitions, core.Scheduled, numbers, errs)
		}
		if err != nil {
			return b.ns.Refusal(err, &v.Entity)
		}
	}
	e.traffic.Cancelled.Add(int64(len(numbers)))
	e.audit.Cancelled(v, a.Sub, numbers, e.audit.Party(ctx, id, core.Send, v))
	return nil
}

// Purge implements core.Broker. If before is in the future and the entity has no history, the store
// removes messages without reading them. Otherwise (a history must show who removed each message)
// one call removes at most delivery.MaxPurge messages.
func (b *Broker) Purge(ctx context.Context, id core.Identity, a core.Address, before time.Time, limit int) (int, error) {
	e, v, sub, err := b.open(ctx, id, a)
	if err != nil {
		return 0, err
	}
	if err := v.Receivable(sub); err != nil {
		return 0, err
	}
	unread := before.After(b.store.Now()) && e.audit == nil
	if !unread {
		limit = min(limit, delivery.MaxPurge)
	}
	limit = b.options.Limits.Purge(limit)
	by := e.audit.Party(ctx, id, core.Listen, v)
	removed := 0
	for _, p := range v.Queues[sub] {
		n, failure := 0, error(nil)
		switch {
		case removed >= limit:
		case unread:
			n, failure = p.Purge(ctx, limit-removed)
			e.traffic.Queues[sub].Settled[core.Complete].Add(int64(n))
		default:
			p.LockDuration = purgeLock
			n, failure = e.receivers.Purge(ctx, p.In(b.store), nil, before, limit-removed, by)
		}
		removed, err = removed+n, cmp.Or(err, failure)
	}
	if removed > 0 {
		return removed, nil // the next call returns the error
	}
	return 0, b.ns.Refusal(err, &v.Entity)
}

// LockNumbers locks the available messages among the numbers, and returns them by partition.
// session is the lock of their session; it is nil for an entity without sessions. The caller needs
// the Listen right.
func (b *Broker) LockNumbers(ctx context.Context, id core.Identity, a core.Address, numbers []int64, session *core.SessionLock) ([]core.Delivery, error) {
	e, v, sub, err := b.open(ctx, id, a)
	if err != nil {
		return nil, err
	}
	if session == nil {
		if err := v.Receivable(sub); err != nil {
			return nil, err
		}
	}
	found := make([][]core.Delivery, len(v.Queues[sub]))
	errs := make([]error, len(found))
	entity.ByPartition(v.Queues[sub], numbers, entity.PartitionOfNumber, nil, func(p *core.Partition, part []int64) []error {
		at := *p
		// A move of the messages may follow. If the gateway crashes, the locks must end before the
		// move's key does: otherwise a repeated move would store the messages twice.
		at.LockDuration = min(at.LockDuration, moveLock)
		found[p.Index], _, errs[p.Index] = at.In(b.store).Lock(ctx, core.LockRequest{Numbers: part, Session: session})
		return nil
	})
	all := slices.Concat(found...)
	if err := cmp.Or(errs...); err != nil {
		e.receivers.SettleAll(context.WithoutCancel(ctx), sub, all, core.Release)
		return nil, b.ns.Refusal(err, &v.Entity)
	}
	e.traffic.Queues[sub].Delivered.Add(int64(len(all)))
	e.audit.Delivered(v, sub, all, e.audit.Party(ctx, id, core.Listen, v))
	return all, nil
}

// Sessions describes the sessions that have messages or state, in the order of their ids, from the
// index skip, up to top. Unlike ListSessions, it does not count as a use of the entity. Its cost
// does not depend on the number of messages.
func (b *Broker) Sessions(ctx context.Context, name string, skip, top int) ([]core.SessionInfo, error) {
	e, v, err := b.viewWithSessions(ctx, name)
	if err != nil {
		return nil, err
	}
	ids, err := b.listSessions(ctx, e, v, time.Time{}, skip, top)
	if err != nil {
		return nil, b.ns.Refusal(err, &v.Entity)
	}
	return b.describeSessions(ctx, v, ids, false)
}

// Session describes a session. A session without messages and state has an empty description.
func (b *Broker) Session(ctx context.Context, name, id string) (core.SessionInfo, error) {
	_, v, err := b.viewWithSessions(ctx, name)
	if err != nil {
		return core.SessionInfo{}, err
	}
	all, err := b.describeSessions(ctx, v, []string{id}, true)
	if err != nil {
		return core.SessionInfo{}, err
	}
	return all[0], nil
}

func (b *Broker) viewWithSessions(ctx context.Context, name string) (*entry, *entity.View, error) {
	e, err := b.entity(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	v := e.View()
	if !v.Settings.RequiresSession {
		return nil, nil, core.Refuse(core.InvalidArgument, "'%s' does not support sessions: create an entity with RequiresSession.", v.Name)
	}
	return e, v, nil
}

func (b *Broker) describeSessions(ctx context.Context, v *entity.View, ids []string, content bool) ([]core.SessionInfo, error) {
	partitions := v.Queues[core.Main]
	errs := make([]error, len(partitions))
	of := func(id *string) uint16 { return core.PartitionOf(string(core.KeyOfSession(*id)), len(partitions)) }
	all := entity.ByPartition(partitions, ids, of, core.SessionInfo{}, func(p *core.Partition, part []string) (found []core.SessionInfo) {
		found, errs[p.Index] = p.DescribeSessions(ctx, part, content)
		return found
	})
	if err := cmp.Or(errs...); err != nil {
		return nil, b.ns.Refusal(err, &v.Entity)
	}
	return all, nil
}

// UnlockSession ends the locks of a session and its messages, whoever holds them, without counting
// failed deliveries. It requires the Manage right. SessionLockLost: the session is not locked.
func (b *Broker) UnlockSession(ctx context.Context, id core.Identity, name, session string) error {
	if err := id.Check(core.Manage, name, time.Now()); err != nil {
		return err
	}
	_, v, err := b.viewWithSessions(ctx, name)
	if err != nil {
		return err
	}
	l := core.SessionLock{ID: session}
	l.Index = core.PartitionOf(string(l.Key()), len(v.Queues[core.Main]))
	err = v.Queues[core.Main][l.Index].ReleaseSession(ctx, l)
	if core.CodeOf(err) == core.SessionLockLost {
		return core.Refuse(core.SessionLockLost, "no receiver has locked the session '%s' of '%s'", session, name)
	}
	return b.ns.Refusal(err, &v.Entity)
}
