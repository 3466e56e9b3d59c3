package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
)

// purgeStep is how many messages Purge removes in one step.
const purgeStep = 1000

// Purge removes up to limit available messages without reading them.
func (p *handle) Purge(ctx context.Context, limit int) (removed int, err error) {
	for last := int64(0); removed < limit; {
		n, to, err := p.purge(min(limit-removed, purgeStep), last)
		removed += n
		if err != nil || n < purgeStep {
			return removed, errors.Join(err, p.waitAll(ctx))
		}
		last = to
	}
	return removed, p.waitAll(ctx)
}

// purge is one step of Purge, which removes messages up to number last, 0 for the
// one given last. It returns that number.
func (p *handle) purge(limit int, last int64) (removed int, _ int64, err error) {
	t, ok := p.enter()
	if !ok {
		return 0, 0, nil
	}
	defer t.leave()
	if t.Sessions {
		return 0, 0, fmt.Errorf("purge outside a session at %s/%d: %w", p.Entity, p.Index, core.NotAllowed)
	}
	q := t.queue
	if last == 0 {
		last = q.last
	}
	for removed < limit && q.counts[fresh]+q.counts[again] > 0 {
		e := q.oldest()
		if e.n > last {
			break
		}
		t.note(core.EventCompleted, q, e)
		q.remove(e)
		removed++
	}
	return removed, last, nil
}
