package broker

import (
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

// Activate makes messages available, or changes when scheduled ones become due: see core.Activate.
// The caller needs the Manage right, because Activate ends locks of other clients.
func (b *Broker) Activate(ctx context.Context, id core.Identity, a core.Address, numbers []int64, at time.Time) []error {
	e, err := b.access(ctx, id, core.Manage, a)
	if err != nil {
		return slices.Repeat([]error{err}, len(numbers))
	}
	e.Use()
	v := e.View()
	settlements := make([]core.Settlement, len(numbers))
	for i, n := range numbers {
		index, position := core.SplitSequenceNumber(n)
		settlements[i] = core.Settlement{Token: core.NewLockToken(index, position, 0), Outcome: core.Activate, At: at}
	}
	by := e.audit.Party(ctx, id, core.Manage, v)
	unknown := error(core.MessageNotFound)
	return entity.ByPartition(v.Queues[a.Sub], settlements, entity.PartitionOfSettlement, unknown, func(p *core.Partition, part []core.Settlement) []error {
		errs := p.Settle(ctx, part)
		e.audit.Settled(v, a.Sub, part, errs, by)
		for i, err := range errs {
			switch core.CodeOf(err) {
			case core.MessageNotFound:
			case core.SessionLocked:
				errs[i] = core.Refuse(core.SessionLocked, "a receiver has locked the message's session: unlock the session first")
			default:
				errs[i] = b.ns.Refusal(err, &v.Entity)
			}
		}
		return errs
	})
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
