package state

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func (p *handle) Lock(ctx context.Context, r core.LockRequest) ([]core.Delivery, time.Time, error) {
	t, x, ok, err := p.enterUnder(&r)
	switch {
	case err != nil:
		return nil, time.Time{}, err
	case !ok && r.Deferred:
		return nil, time.Time{}, missing("deferred", p.Ref, r.Numbers)
	case !ok:
		return nil, time.Time{}, nil
	case r.Deferred:
		return t.lockDeferred(ctx, r.Numbers, x)
	case r.Numbers != nil:
		return t.lockNumbers(ctx, r.Numbers, x)
	case t.Sessions && x == nil:
		t.leave()
		return nil, time.Time{}, fmt.Errorf("cannot lock messages without a session in entity %s (partition %d), which requires sessions: %w", p.Entity, p.Index, core.NotAllowed)
	}
	return t.lockMost(ctx, r.Most, x)
}

func (p *handle) enterUnder(r *core.LockRequest) (t txn, x *session, ok bool, err error) {
	if !p.Sessions || r.Session == nil && r.Numbers == nil && !r.Deferred {
		t, ok = p.enter()
		return t, nil, ok, nil
	}
	t, x, err = p.enterSession(r.Session, nil)
	return t, x, err == nil, err
}

// lockMost locks available messages of x or, if x is nil, those in no session. It ends the call.
func (t *txn) lockMost(ctx context.Context, most core.Most, x *session) ([]core.Delivery, time.Time, error) {
	oldest, available := t.queue.oldest, int(t.queue.counts[fresh]+t.queue.counts[again])
	if x != nil {
		oldest, available = func() *entry { return x.ready.due(math.MaxInt64) }, len(x.ready.items)
		if x.pauses > 0 {
			available = 0
		}
	}
	deliveries, next := make([]core.Delivery, 0, min(max(most.Messages, 0), available)), int64(0)
	for bytes := int64(0); len(deliveries) < cap(deliveries); {
		e := oldest()
		if bytes += int64(e.size); most.Bytes > 0 && bytes > most.Bytes && len(deliveries) > 0 {
			return t.deliver(ctx, deliveries, t.now)
		}
		deliveries = append(deliveries, t.lockUnder(e, locked, x))
	}
	if len(deliveries) < most.Messages {
		next = t.queue.next()
	}
	return t.deliver(ctx, deliveries, next)
}

func (t *txn) deliver(ctx context.Context, ds []core.Delivery, next int64) ([]core.Delivery, time.Time, error) {
	t.leave()
	ds, err := t.complete(ctx, ds)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("cannot lock messages of %v: %w", t.Ref, err)
	}
	return ds, core.Instant(next), nil
}

// oldest returns the message to deliver next: messages that were delivered before come first, then
// the lowest number. At least one message must be available.
func (q *queue) oldest() *entry {
	if q.counts[again] > 0 {
		return q.again.items[0].of
	}
	for e := range q.log.from(q.cursor + 1) {
		if e.state == fresh {
			if e.isRow {
				q.promote(e)
			}
			return e
		}
		q.cursor = e.n
	}
	return nil
}

func (t *txn) lockEnd() int64 { return t.now + t.LockDuration.Milliseconds() }

func (t *txn) lock(e *entry, as MessageState, nonce uint64, until int64) core.Delivery {
	e.nonce, e.until, e.byBroker = nonce, until, t.BrokerLocks
	t.queue.move(e, as)
	d := t.delivery(e)
	d.LockToken = core.NewLockToken(t.Ref.Index, e.n, e.nonce)
	d.LockedUntil = core.Instant(e.until)
	return d
}

func (p *handle) Renew(ctx context.Context, tokens []core.LockToken) []core.Renewal {
	t, _, ok := p.enterOnce(nil)
	if !ok {
		return slices.Repeat([]core.Renewal{{Err: lost(p.Policy, nil)}}, len(tokens))
	}
	answers := make([]core.Renewal, len(tokens))
	for i, token := range tokens {
		e := t.holder(token)
		if e == nil {
			answers[i].Err = lost(t.Policy, nil)
			continue
		}
		if e.session == nil {
			e.until = t.lockEnd()
			t.queue.move(e, e.state)
		}
		answers[i].Until = core.Instant(e.until)
	}
	t.leave()
	if err := p.stopped(); err != nil {
		return slices.Repeat([]core.Renewal{{Err: fmt.Errorf("cannot renew a lock in %v: %w", p.Ref, err)}}, len(tokens))
	}
	return answers
}

// holder returns the entry that token locks, or nil if the lock has ended, even if not yet swept.
func (t *txn) holder(token core.LockToken) *entry {
	e := t.queue.log.get(token.Number())
	if e == nil || !e.state.IsLocked() || e.delayed || e.ends() <= t.now || token != core.NewLockToken(t.Ref.Index, e.n, e.nonce) {
		return nil
	}
	return e
}

// lockDeferred locks all messages or none, and ends the call. It expires requested messages whose
// time to live has ended, even if it locks none. If x is nil, the messages must be in no session.
func (t *txn) lockDeferred(ctx context.Context, numbers []int64, x *session) ([]core.Delivery, time.Time, error) {
	for _, number := range numbers {
		if e := t.inState(number, deferred); e != nil && e.session == x && t.queue.hasExpired(e, t.now) {
			t.expire(t.queue, e)
		}
	}
	entries := t.allInState(numbers, deferred)
	if entries == nil || slices.ContainsFunc(entries, func(e *entry) bool { return e.session != x }) {
		t.leave()
		return nil, time.Time{}, missing("deferred", t.Ref, numbers)
	}
	deliveries := make([]core.Delivery, len(entries))
	for i, e := range entries {
		deliveries[i] = t.lockUnder(e, lockedDeferred, x)
	}
	deliveries, _, err := t.deliver(ctx, deliveries, 0)
	if err == nil && len(deliveries) < len(entries) {
		t.giveBack(deliveries)
		return nil, time.Time{}, missing("deferred", t.Ref, numbers)
	}
	return deliveries, time.Time{}, err
}

func (t *txn) lockUnder(e *entry, as MessageState, x *session) core.Delivery {
	if x != nil {
		return t.lock(e, as, x.Nonce, x.Until)
	}
	return t.lock(e, as, core.NewNonce(), t.lockEnd())
}

// lockNumbers locks those available in x or, if x is nil, in no session. It ends the call.
func (t *txn) lockNumbers(ctx context.Context, numbers []int64, x *session) ([]core.Delivery, time.Time, error) {
	var deliveries []core.Delivery
	for _, number := range numbers {
		index, n := core.SplitSequenceNumber(number)
		if index != t.Ref.Index {
			continue
		}
		if e := t.queue.entry(n); e != nil && e.state.isAvailable() && e.session == x && (x == nil || x.pauses == 0) {
			deliveries = append(deliveries, t.lockUnder(e, locked, x))
		}
	}
	return t.deliver(ctx, deliveries, 0)
}

// allInState returns the entries, or nil if a number repeats or a message is in another state.
func (t *txn) allInState(numbers []int64, as ...MessageState) []*entry {
	entries := make([]*entry, len(numbers))
	given := make(map[int64]bool, len(numbers))
	for i, number := range numbers {
		entries[i] = t.inState(number, as...)
		if entries[i] == nil || given[number] {
			return nil
		}
		given[number] = true
	}
	return entries
}

func (t *txn) inState(number int64, as ...MessageState) *entry {
	index, n := core.SplitSequenceNumber(number)
	if index != t.Ref.Index {
		return nil
	}
	if e := t.queue.log.get(n); e != nil && slices.Contains(as, e.state) {
		return e
	}
	return nil
}

func missing(what string, r core.Ref, numbers []int64) error {
	return fmt.Errorf("cannot find the %s messages %v of %v: %w", what, numbers, r, core.MessageNotFound)
}

// EndLinks ends the locks that cannot outlive the process that last used the store: those of
// sessions and their messages, and the broker's own. It counts no failed deliveries. Receivers keep
// all other locks, because lock tokens outlive connections. EndLinks also puts the free sessions
// into the order of their first available messages, because the journal does not record since when
// a session waits. It must be called after Start and before any other call.
func (s *Store) EndLinks() {
	_ = s.whileOpening(func(t *txn, q *queue) error { // visit never fails
		// These bounds drop no events, because the entities' policies are not known here. The next
		// call with the entity's policy trims the history.
		t.History = core.HistoryBounds{Keep: math.MaxInt64, Max: math.MaxInt}
		t.endLinks(q)
		q.lineUp()
		return nil
	})
}

func (t *txn) endLinks(q *queue) {
	var ended []*entry
	for e := range q.locks.all() {
		// Earlier versions had no byBroker, and locks of the broker only in transfer queues.
		if !e.delayed && (e.session != nil || e.byBroker || q.ref.Sub == core.Transfer) {
			ended = append(ended, e)
		}
	}
	slices.SortFunc(ended, byNumber)
	for _, e := range ended {
		if len(q.home.history.events) > 0 {
			t.note(core.EventReleased, q, e)
		}
		if e.state == lockedDeferred {
			q.move(e, deferred)
		} else {
			q.move(e, again) // the next sweep finds messages that have expired
		}
		if t.effects.isLarge() {
			t.effects.append()
		}
	}
	for _, x := range slices.SortedFunc(q.held.all(), byKey) {
		q.letGo(x)
	}
}
