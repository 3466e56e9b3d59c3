package state

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

var _ core.Backups = (*Store)(nil)

func (s *Store) NamespaceIDs(context.Context) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.spaces)), s.stopped()
}

// Export holds the partition's mutex: nothing changes, and the journal moves or removes no record.
func (s *Store) Export(ctx context.Context, r core.Ref, take func(*core.Stored) error) error {
	r.Subscription, r.Sub = "", core.Main
	p := s.lockPartition(r)
	if p == nil {
		return fmt.Errorf("cannot export %v: %w", r, core.NotFound)
	}
	defer p.mu.Unlock()
	t := txn{partition: p, handle: &handle{Store: s, Ref: r}}
	for _, home := range p.homes() {
		if err := t.export(ctx, home, take); err != nil {
			return fmt.Errorf("cannot export %v: %w", r, err)
		}
	}
	return s.stopped()
}

func (t *txn) export(ctx context.Context, home *entityState, take func(*core.Stored) error) (err error) {
	give := func(x core.Stored) {
		if x.Subscription = home.ref.Subscription; err == nil {
			err = cmp.Or(take(&x), ctx.Err())
		}
	}
	for i, q := range home.queues {
		if q == nil {
			continue
		}
		sub := core.SubQueue(i)
		if q.last > 0 {
			give(core.Stored{Kind: core.StoredLast, Sub: sub, Last: q.last})
		}
		for _, key := range slices.Sorted(maps.Keys(q.sessions)) {
			if x := q.sessions[key]; x.State != nil {
				give(core.Stored{Kind: core.StoredState, Sub: sub, Session: x.Stater, SessionState: x.State, Time: core.Instant(x.Stated)})
			}
		}
		for e := range q.log.from(0) {
			if e.state == reserved || err != nil {
				continue
			}
			var d core.Delivery
			if d, err = t.exported(e); err == nil {
				give(core.Stored{Kind: core.StoredMessage, Sub: sub, InSession: e.sessionful, Delivery: d})
			}
		}
	}
	for id := range home.seen.all(math.MinInt64) {
		give(core.Stored{Kind: core.StoredSeen, Key: id.key, Time: core.Instant(id.at)})
	}
	for id := range home.moves.all(math.MinInt64) {
		give(core.Stored{Kind: core.StoredMove, Key: id.key, Time: core.Instant(id.at)})
	}
	return err
}

func (t *txn) exported(e *entry) (core.Delivery, error) {
	m := e.message
	if m == nil {
		var err error
		if m, err = t.Store.read(e.ref, e.more); err != nil {
			return core.Delivery{}, fmt.Errorf("cannot read message %d: %w", e.n, err)
		}
	}
	return t.withMessage(e, m), nil
}

const (
	importMost  = 500
	importBytes = 1 << 20
)

// Import sweeps only at the end: an earlier sweep could move messages, and give them numbers that
// later objects have.
func (s *Store) Import(ctx context.Context, r core.Ref, things iter.Seq2[*core.Stored, error]) error {
	r.Subscription, r.Sub = "", core.Main
	err := s.checkEmpty(r)
	if err == nil {
		err = s.importAll(ctx, r, things)
	}
	if err != nil {
		return fmt.Errorf("cannot import into %v: %w", r, err)
	}
	return nil
}

func (s *Store) importAll(ctx context.Context, r core.Ref, things iter.Seq2[*core.Stored, error]) error {
	var batch []core.Stored
	size := 0
	for x, err := range things {
		if err != nil {
			return err
		}
		batch = append(batch, *x)
		size += len(x.SessionState) + len(x.Key)
		if x.Message != nil {
			size += x.Size()
		}
		if len(batch) >= importMost || size >= importBytes {
			if err := s.importBatch(ctx, r, batch); err != nil {
				return err
			}
			batch, size = batch[:0], 0
		}
	}
	if err := s.importBatch(ctx, r, batch); err != nil {
		return err
	}
	return s.waitAll(ctx)
}

func (s *Store) checkEmpty(r core.Ref) error {
	p := s.lockPartition(r)
	if p == nil {
		return core.NotFound
	}
	defer p.mu.Unlock()
	for _, home := range p.homes() {
		used := len(home.seen.known)+len(home.moves.known) > 0
		for _, q := range home.queues {
			used = used || q != nil && (q.last > 0 || len(q.sessions) > 0)
		}
		if used {
			return core.Refuse(core.AlreadyExists, "the partition is not empty: import into an entity that was never used")
		}
	}
	return nil
}

func (s *Store) importBatch(ctx context.Context, r core.Ref, batch []core.Stored) error {
	var ms []*core.Message
	x, err := s.begin(ctx, func(x *effects) error {
		for i := range batch {
			x.Room(len(batch[i].SessionState) + 2*len(batch[i].Session) + len(batch[i].Key))
			if m := batch[i].Message; m != nil {
				ms = append(ms, m)
			}
		}
		return x.Messages(ctx, ms)
	})
	if err != nil {
		return err
	}
	p := s.lockPartition(r)
	if p == nil {
		x.release()
		return core.NotFound
	}
	now := s.millis()
	s.beginAt(p, x, now)
	t := txn{partition: p, handle: &handle{Store: s, Ref: r}, now: now}
	for i := range batch {
		if err = t.importThing(&batch[i]); err != nil {
			break
		}
	}
	t.leave()
	return err
}

func (t *txn) importThing(x *core.Stored) error {
	home := t.entity(x.Subscription)
	if home == nil {
		return fmt.Errorf("cannot import into subscription %s: %w", x.Subscription, core.NotFound)
	}
	q := home.queue(x.Sub)
	switch x.Kind {
	case core.StoredLast:
		q.last = max(q.last, x.Last)
		t.effects.do(Effect{Kind: EffectLast, Of: q.ref, Number: q.last})
	case core.StoredState:
		q.keep(q.session(core.KeyOfSession(x.Session)), slices.Clone(x.SessionState), core.Millis(x.Time), x.Session)
	case core.StoredMessage:
		return t.importMessage(q, x)
	case core.StoredSeen:
		home.remember(&home.seen, x.Key, core.Millis(x.Time))
	case core.StoredMove:
		home.remember(&home.moves, x.Key, core.Millis(x.Time))
	}
	return nil
}

func (t *txn) importMessage(q *queue, x *core.Stored) error {
	_, n := core.SplitSequenceNumber(x.SequenceNumber)
	if n <= q.log.highest() {
		return core.Refuse(core.Conflict, "message %d comes after a message with a higher number: sort the messages by number", n)
	}
	e := t.newEntry(x.Message)
	e.origin, e.enqueued, e.expires = x.EnqueuedSequenceNumber, core.Millis(x.EnqueuedTime), core.Millis(x.ExpiresAt)
	e.failures, e.sessionful = x.DeliveryCount, x.InSession
	if !x.DeadLetteredTime.IsZero() {
		e.change(func(more *extra) { more.died = core.Millis(x.DeadLetteredTime) })
	}
	switch x.State {
	case core.Deferred:
		e.state = deferred
	case core.Scheduled:
		e.state, e.until, e.expires = scheduled, core.Millis(x.ScheduledEnqueueTime), 0
	}
	last := q.last
	q.last = n - 1
	q.append(e)
	q.last = max(q.last, last)
	if e.state == fresh {
		t.announce(q, e)
	}
	return nil
}
