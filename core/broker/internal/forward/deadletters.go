package forward

import (
	"cmp"
	"context"
	"errors"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

func (fb *forwardBatch) reject(i int, err error) {
	fb.rejected = append(fb.rejected, i)
	fb.reasons = append(fb.reasons, err)
}

// A message of the main queue that was forwarded too often goes to the entity's dead-letter queue,
// any other rejected message to the transfer dead-letter queue.
func (fb *forwardBatch) deadLetterRejected(ctx context.Context) {
	transferDeadLetters := fb.v.Queues[core.TransferDeadLetter][fb.p.Index]
	var groups [][]*core.Message
	var at []int
	for n, i := range fb.rejected {
		d := &fb.ds[i]
		why := deadLetterReason(d, fb.reasons[n])
		if fb.p.Sub == core.Transfer || fb.p.Sub == core.Main && errors.Is(fb.reasons[n], errTooManyHops) {
			fb.settle(i, core.Settlement{Outcome: core.DeadLetterOutcome, Properties: why}, stored{})
			continue
		}
		m := *d.Message
		m.Properties = m.Properties.Merge(why)
		transit := core.Transit{EnqueuedSequenceNumber: d.EnqueuedSequenceNumber, DeadLetterSource: d.DeadLetterSource, Key: fb.route.moveKey(d)}
		if d.Transit != nil {
			transit.Hops = d.Transit.Hops
		}
		m.Transit = &transit
		groups = append(groups, []*core.Message{&m})
		at = append(at, i)
	}
	if len(groups) == 0 {
		return
	}
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	for n, a := range transferDeadLetters.Append(call, groups) {
		if a.Err != nil {
			fb.pf.holdBackAfter(a.Err, &fb.ds[at[n]], destination{})
			continue
		}
		fb.settle(at[n], core.Settlement{}, stored{p: transferDeadLetters, key: groups[n][0].Transit.Key})
	}
}

var reasons = map[core.Code]string{
	core.NotFound: ReasonNoDestination, core.TooLarge: ReasonTooLarge, core.EntityDisabled: ReasonDisabled, core.QuotaExceeded: ReasonFull,
}

// If the message had already been a dead letter, the properties also have its former reason.
func deadLetterReason(d *core.Delivery, err error) core.Properties {
	reason, text := reasonUnsuitable, core.TextOf(err)
	switch {
	case errors.Is(err, errTooManyHops):
		reason = core.ReasonMaxHops
	case errors.Is(err, entity.ErrNoSessionID):
		reason, text = core.ReasonNoSession, core.DescriptionNoSession
	default:
		reason = cmp.Or(reasons[core.CodeOf(err)], reason)
	}
	if before, ok := d.Properties.Get(core.PropertyDeadLetterReason); ok {
		if s, ok := before.(string); ok {
			text += " It was dead-lettered before: " + s
		}
	}
	return core.ReasonProperties(reason, text)
}

func IsPermanent(err error) bool {
	switch core.CodeOf(err) {
	case core.NotFound, core.NotAllowed, core.InvalidArgument, core.OutOfRange, core.TooLarge:
		return true
	default:
		return false
	}
}
