package broker

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/value"
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

type Retry struct {
	core.Backoff
	// Jitter, from 0 to 1, is the largest fraction by which a delay is shortened at random.
	Jitter float64
}

func (r *Retry) backoff() core.Backoff {
	b := r.Bound()
	share := 1 - r.Jitter*rand.Float64()
	b.First = time.Duration(float64(b.First) * share)
	b.Max = time.Duration(float64(b.Max) * share)
	return b
}

// delay sets the backoff of an abandoned or released message from the properties of the settlement.
// For an abandoned message without such properties, it comes from the configuration.
func (e *entry) delay(sub core.SubQueue, s *core.Settlement) error {
	wait, asked, err := askedDelay(s.Properties, e.b.store.Now())
	switch {
	case err != nil:
		return err
	case asked:
		s.Properties = s.Properties.Without(core.PropertyRetryAfter, core.PropertyRetryAt)
		s.Backoff = core.Backoff{First: wait}
	case s.Outcome == core.Abandon && s.Backoff.IsZero() && sub == core.Main:
		s.Failed = true
		if retry := e.retry.Load(); retry != nil {
			s.Backoff = retry.backoff()
		}
	}
	if s.Outcome == core.Release && !s.Properties.IsEmpty() {
		return core.Refuse(core.InvalidArgument, "The properties %s and %s release the message, so the settlement cannot change other properties: leave the other properties out.", core.PropertyRetryAfter, core.PropertyRetryAt)
	}
	return nil
}

func askedDelay(p core.Properties, now time.Time) (wait time.Duration, asked bool, err error) {
	if p.IsEmpty() {
		return 0, false, nil
	}
	after, hasAfter := p.Get(core.PropertyRetryAfter)
	at, hasAt := p.Get(core.PropertyRetryAt)
	switch {
	case hasAfter && hasAt:
		return 0, true, core.Refuse(core.InvalidArgument, "The properties %s and %s are both set: set only one.", core.PropertyRetryAfter, core.PropertyRetryAt)
	case hasAfter:
		wait, err = parseDelay(after)
	case hasAt:
		var due time.Time
		due, err = parseInstant(at)
		wait = max(due.Sub(now), 0)
	default:
		return 0, false, nil
	}
	if err == nil && wait > core.MaxBackoff {
		err = core.Refuse(core.OutOfRange, "The requested delay before the next delivery is %v: at most %v is allowed.", wait, core.MaxBackoff)
	}
	return wait, true, err
}

func parseDelay(v any) (time.Duration, error) {
	var seconds float64
	switch v := v.(type) {
	case string:
		if d, err := core.ParseDuration(v); err == nil {
			return d, nil
		}
		var err error
		if seconds, err = strconv.ParseFloat(v, 64); err != nil {
			seconds = math.NaN()
		}
	case value.Described:
		ticks, ok := v.Value.(int64)
		if !ok || v.Descriptor != value.DescriptorTimeSpan {
			return 0, errDelay
		}
		seconds = float64(ticks) / 1e7
	default:
		var ok bool
		if seconds, ok = value.Float(v); !ok {
			return 0, errDelay
		}
	}
	if math.IsNaN(seconds) || seconds < 0 {
		return 0, errDelay
	}
	return time.Duration(min(seconds*1e9, float64(core.Forever-time.Second))), nil
}

var errDelay = core.Refuse(core.InvalidArgument, "The value of %s is not a delay: use a number of seconds of at least 0, or an ISO 8601 duration such as PT1M30S.", core.PropertyRetryAfter)

func parseInstant(v any) (time.Time, error) {
	if t, ok := v.(value.Timestamp); ok {
		return t.Time(), nil
	}
	if t, err := time.Parse(time.RFC3339, value.Text(v)); err == nil { // a string, or a DateTimeOffset of .NET
		return t, nil
	}
	return time.Time{}, core.Refuse(core.InvalidArgument, "The value of %s is not a time: use a timestamp, or a string such as 2026-02-01T12:00:00Z.", core.PropertyRetryAt)
}
