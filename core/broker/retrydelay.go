package broker

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

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
