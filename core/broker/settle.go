package broker

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

// Settle implements core.Broker. It ignores the entity's status, so that work under way can end.
func (b *Broker) Settle(ctx context.Context, id core.Identity, address string, settlements []core.Settlement) []error {
	e, a, err := b.access(ctx, id, core.Listen, address)
	if err != nil {
		return repeat(err, len(settlements))
	}
	e.use()
	errs := e.prepareAndSettle(ctx, a.Sub, settlements)
	e.noteSettled(a.Sub, settlements, errs, e.party(ctx, id, core.Listen))
	return errs
}

// prepareAndSettle settles for a client: it adds what the configuration says to the settlements
// first.
func (e *entry) prepareAndSettle(ctx context.Context, sub core.SubQueue, settlements []core.Settlement) []error {
	for i := range settlements {
		if e.needsPreparing(&settlements[i]) {
			return e.settleEach(ctx, sub, settlements)
		}
	}
	return e.settle(ctx, sub, settlements)
}

func repeat(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// needsPreparing reports whether prepareSettle may change a settlement.
func (e *entry) needsPreparing(s *core.Settlement) bool {
	return s.Outcome == core.DeadLetterOutcome || s.Outcome == core.Abandon && (e.retry.Load() != nil || !s.Properties.IsEmpty())
}

// prepareSettle returns a settlement as the store is to carry it out.
func (e *entry) prepareSettle(sub core.SubQueue, s core.Settlement) (core.Settlement, error) {
	var err error
	switch s.Outcome {
	case core.DeadLetterOutcome:
		s.Properties, err = deadLetterProperties(s.Properties)
	case core.Abandon:
		err = e.delay(sub, &s)
	}
	return s, err
}

// settleEach prepares each settlement and carries out those that are not refused.
func (e *entry) settleEach(ctx context.Context, sub core.SubQueue, settlements []core.Settlement) []error {
	errs := make([]error, len(settlements))
	good := make([]core.Settlement, 0, len(settlements))
	at := make([]int, 0, len(settlements))
	for i, s := range settlements {
		if s, errs[i] = e.prepareSettle(sub, s); errs[i] == nil {
			good = append(good, s)
			at = append(at, i)
		}
	}
	for i, err := range e.settle(ctx, sub, good) {
		errs[at[i]] = err
	}
	return errs
}

// settle ends locks by their tokens.
func (e *entry) settle(ctx context.Context, sub core.SubQueue, settlements []core.Settlement) []error {
	v := e.current.Load()
	partitions := v.partitions[sub]
	if p, ok := onlyPartition(settlements, len(partitions), partitionOfSettlement); ok {
		errs := e.b.store.Settle(ctx, partitions[p], settlements)
		e.traffic.queues[sub].settle(settlements, errs)
		return e.b.refusals(errs, v)
	}
	groups, strays := groupByPartition(settlements, len(partitions), partitionOfSettlement)
	errs := make([]error, len(settlements))
	for _, i := range strays {
		errs[i] = errLockLost
	}
	eachGroup(groups, func(p *partitionGroup[core.Settlement]) {
		answers := e.b.store.Settle(ctx, partitions[p.partition], p.items)
		e.traffic.queues[sub].settle(p.items, answers)
		for i, err := range e.b.refusals(answers, v) {
			errs[p.index(i)] = err
		}
	})
	return errs
}

func partitionOfSettlement(s *core.Settlement) uint16 { return s.Token.Partition() }

// refusals makes the errors of locks readable, in place. A lock of a partition that is gone is
// lost.
func (b *Broker) refusals(errs []error, v *view) []error {
	for i, err := range errs {
		switch {
		case err == nil:
		case core.CodeOf(err) == core.NotFound:
			errs[i] = errLockLost
		default:
			errs[i] = b.refusal(err, &v.Entity)
		}
	}
	return errs
}

// Renew implements core.Broker.
func (b *Broker) Renew(ctx context.Context, id core.Identity, address string, tokens []core.LockToken) []core.Renewal {
	renewals := make([]core.Renewal, len(tokens))
	e, a, err := b.access(ctx, id, core.Listen, address)
	if err != nil {
		for i := range renewals {
			renewals[i].Err = err
		}
		return renewals
	}
	e.use()
	v := e.current.Load()
	partitions := v.partitions[a.Sub]
	groups, strays := groupByPartition(tokens, len(partitions), func(t *core.LockToken) uint16 { return t.Partition() })
	for _, i := range strays {
		renewals[i].Err = errLockLost
	}
	eachGroup(groups, func(p *partitionGroup[core.LockToken]) {
		for i, r := range b.store.Renew(ctx, partitions[p.partition], p.items) {
			if r.Err != nil {
				r.Err = b.refusals([]error{r.Err}, v)[0]
			}
			renewals[p.index(i)] = r
		}
	})
	return renewals
}
