package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const sweepMost = 500

func (p *handle) Sweep(_ context.Context) (time.Time, error) {
	t, ok := p.enter()
	if !ok {
		return time.Time{}, nil
	}
	defer t.leave()
	return core.Instant(t.queue.next()), nil
}

// sweep does what is due in q: it ends expired locks, then activates scheduled messages, then
// expires messages, each ordered by time and then by number. It returns false if the budget is used
// up first.
// Calls on the dead-letter queue also sweep the main queue, with the Policy of the dead-letter
// queue. So sweep must not use a field of t.Policy that differs between the two queues.
func (t *txn) sweep(q *queue, budget *int) (done bool) {
	for q.held.due(t.now) != nil {
		if !t.endSessions(q, budget) {
			return false
		}
	}
	for e := q.locks.due(t.now); e != nil; e = q.locks.due(t.now) {
		if !t.spend(budget) {
			return false
		}
		t.endLock(q, e)
	}
	for e := q.schedules.due(t.now); e != nil; e = q.schedules.due(t.now) {
		if !t.spend(budget) {
			return false
		}
		if e.state == reserved { // its transaction has not committed in time
			q.remove(e)
			continue
		}
		t.becomeDue(q, e)
	}
	for e := q.firstExpired(t.now); e != nil; e = q.firstExpired(t.now) {
		if !t.spend(budget) {
			return false
		}
		t.expire(q, e)
	}
	return true
}

func (t *txn) becomeDue(q *queue, e *entry) {
	q.remove(e)
	due := e.successor()
	due.life = e.life
	if e.moved {
		due.origin, due.moved = e.origin, true
	}
	t.noteMove(core.EventActivated, q, e, t.admit(q, due, e.sessionful, 0), "")
}

// endSessions ends the session locks with the earliest end: first the locks of their messages by
// number, then the session locks by key. It returns false if the budget is used up.
func (t *txn) endSessions(q *queue, budget *int) (done bool) {
	ending := q.held.ties()
	var all []*entry
	for _, x := range ending {
		all = slices.AppendSeq(all, x.locked.all())
	}
	slices.SortFunc(all, byNumber)
	for _, e := range all {
		if !t.spend(budget) {
			return false
		}
		t.unlock(q, e, core.EventLockExpired)
	}
	slices.SortFunc(ending, byKey)
	for _, x := range ending {
		if !t.spend(budget) {
			return false
		}
		t.letGo(q, x)
	}
	return true
}

func (t *txn) endLock(q *queue, e *entry) {
	failure, paused := core.EventLockExpired, e.session
	switch {
	case e.delayed && e.nonce == 0:
		failure = ""
		t.note(core.EventReleased, q, e)
	case e.delayed:
		failure = core.EventReturned
	default:
		paused = nil
	}
	t.unlock(q, e, failure)
	if paused != nil && paused.pauses == 0 {
		t.wakeSession(q, paused)
	}
}

// spend takes 1 from the budget, or returns false if that is 0 or the effects suffice for a frame.
func (t *txn) spend(budget *int) bool {
	if *budget == 0 || t.effects.isLarge() {
		return false
	}
	*budget--
	return true
}

func (t *txn) announce(q *queue, e *entry) {
	switch s := e.session; {
	case s == nil || !s.isHeld() && s.pauses == 0:
		t.wakeReceivers(q)
	case s.pauses == 0:
		t.wakeHolder(q, s)
	}
}

// purgeStep limits the messages removed in one step, so that other calls need not wait long.
const purgeStep = 1000

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

// purge removes up to limit available messages whose numbers are at most last. If last is 0, it
// uses the highest number so far, and returns it.
func (p *handle) purge(limit int, last int64) (removed int, _ int64, err error) {
	t, ok := p.enter()
	if !ok {
		return 0, 0, nil
	}
	defer t.leave()
	if t.Sessions {
		return 0, 0, fmt.Errorf("cannot purge entity %s (partition %d), because it requires sessions: %w", p.Entity, p.Index, core.NotAllowed)
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

func (p *handle) Clear(ctx context.Context) error {
	if p.Subscription != "" {
		return fmt.Errorf("cannot clear the subscription %s of topic %s (partition %d), because only a whole topic can be cleared: %w", p.Subscription, p.Entity, p.Index, core.NotAllowed)
	}
	shard := p.lockPartition(p.Ref)
	if shard == nil {
		return nil
	}
	t := txn{partition: shard, handle: p}
	p.beginAt(shard, nil, p.millis())
	t.effects.do(Effect{Kind: EffectClear, Of: shard.own.ref})
	t.clearAll()
	t.leave()
	return t.wait(ctx)
}

func (t *txn) clearAll() {
	t.clear(t.own)
	for _, b := range t.subscriptions {
		t.clear(b)
	}
	t.bytes = 0
	t.cleared++
}

func (t *txn) clear(b *entityState) {
	b.forgetAll()
	for sub, old := range b.queues {
		if old == nil {
			continue
		}
		b.queues[sub] = nil
		old.evict()
		q := b.queue(core.SubQueue(sub))
		q.last, q.cursor = old.last, old.last
		if _, held := old.held.first(); held {
			t.wakeReceivers(q) // the holder must learn that its lock is lost
		}
	}
}
