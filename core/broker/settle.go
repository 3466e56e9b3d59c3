package broker

import (
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

// Settle ignores the entity's status, so that work can be finished.
func (b *Broker) Settle(ctx context.Context, id core.Identity, a core.Address, settlements []core.Settlement) []error {
	e, err := b.access(ctx, id, core.Listen, a)
	if err != nil {
		return slices.Repeat([]error{err}, len(settlements))
	}
	e.Use()
	carriedOut, errs := e.prepareAndSettle(ctx, a.Sub, settlements)
	v := e.View()
	e.audit.Settled(v, a.Sub, carriedOut, errs, e.audit.Party(ctx, id, core.Listen, v))
	return errs
}

// prepareAndSettle settles, after it has added delays and shortened dead-letter properties.
func (e *entry) prepareAndSettle(ctx context.Context, sub core.SubQueue, settlements []core.Settlement) ([]core.Settlement, []error) {
	for i := range settlements {
		if e.needsPreparing(&settlements[i]) {
			return e.settleEach(ctx, sub, settlements)
		}
	}
	return settlements, e.receivers.Settle(ctx, sub, settlements)
}

func (e *entry) needsPreparing(s *core.Settlement) bool {
	switch s.Outcome {
	case core.DeadLetterOutcome:
		return true
	case core.Abandon, core.Release:
		return !s.Properties.IsEmpty() || s.Outcome == core.Abandon && (e.retry.Load() != nil || e.receivers.Circuit() != nil)
	default:
		return s.Outcome == core.Defer && !s.Properties.IsEmpty()
	}
}

func (e *entry) prepareSettle(sub core.SubQueue, s core.Settlement) (core.Settlement, error) {
	if err := e.b.ns.Keep(len(s.Properties.Encoded())); err != nil && s.Outcome != core.Complete && s.Outcome != core.Release {
		return s, err
	}
	var err error
	switch s.Outcome {
	case core.DeadLetterOutcome:
		s.Properties, err = entity.DeadLetterProperties(s.Properties)
	case core.Abandon, core.Release:
		err = e.delay(sub, &s)
	}
	if s.Failed && sub == core.Main {
		e.receivers.Circuit().Soften(&s)
	}
	return s, err
}

func (e *entry) settleEach(ctx context.Context, sub core.SubQueue, settlements []core.Settlement) ([]core.Settlement, []error) {
	errs := make([]error, len(settlements))
	settlements = slices.Clone(settlements)
	good := make([]core.Settlement, 0, len(settlements))
	at := make([]int, 0, len(settlements))
	for i, s := range settlements {
		if settlements[i], errs[i] = e.prepareSettle(sub, s); errs[i] == nil {
			good = append(good, settlements[i])
			at = append(at, i)
		}
	}
	for i, err := range e.receivers.Settle(ctx, sub, good) {
		errs[at[i]] = err
	}
	return settlements, errs
}

func (b *Broker) Renew(ctx context.Context, id core.Identity, a core.Address, tokens []core.LockToken) []core.Renewal {
	e, err := b.access(ctx, id, core.Listen, a)
	if err != nil {
		return slices.Repeat([]core.Renewal{{Err: err}}, len(tokens))
	}
	e.Use()
	v := e.View()
	of, lost := func(t *core.LockToken) uint16 { return t.Partition() }, core.Renewal{Err: entity.ErrLockLost}
	return entity.ByPartition(v.Queues[a.Sub], tokens, of, lost, func(p *core.Partition, part []core.LockToken) []core.Renewal {
		renewals := p.Renew(ctx, part)
		if a.Sub == core.Main {
			e.receivers.Circuit().Renewed(part, renewals)
		}
		for i := range renewals {
			renewals[i].Err = b.ns.Lock(renewals[i].Err, v)
		}
		return renewals
	})
}

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
