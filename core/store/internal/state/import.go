package state

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// importMost is how many things Import stores at once, about, and
	// importBytes how large they are when nothing more is added.
	importMost  = 500
	importBytes = 1 << 20
)

// Import fills a partition. It stores things in steps, without a sweep before all is there: what a
// sweep would move takes numbers that are still to come.
func (s *Store) Import(ctx context.Context, r core.Ref, things iter.Seq2[*core.Stored, error]) error {
	r.Subscription, r.Sub = "", core.Main
	err := s.checkEmpty(r)
	var batch []core.Stored
	size := 0
	if err == nil {
		for x, failed := range things {
			if err = failed; err != nil {
				break
			}
			batch = append(batch, *x)
			size += len(x.SessionState) + len(x.Key)
			if x.Message != nil {
				size += x.Size()
			}
			if len(batch) >= importMost || size >= importBytes {
				if err = s.importBatch(ctx, r, batch); err != nil {
					break
				}
				batch, size = batch[:0], 0
			}
		}
	}
	if err == nil {
		err = s.importBatch(ctx, r, batch)
	}
	if err == nil {
		err = s.waitAll(ctx)
	}
	if err != nil {
		return fmt.Errorf("import into %s/%d: %w", r.Entity, r.Index, err)
	}
	return nil
}

// checkEmpty refuses a partition that has, or had, messages, or remembers anything.
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
		if x != nil {
			x.release()
		}
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
		return fmt.Errorf("subscription %s: %w", x.Subscription, core.NotFound)
	}
	q := home.queue(x.Sub)
	switch x.Kind {
	case core.StoredLast:
		q.last = max(q.last, x.Last)
		if e := t.effects; e != nil {
			e.do(Effect{Kind: EffectLast, Of: q.ref, Number: q.last})
		}
	case core.StoredState:
		q.keep(q.session(core.KeyOfSession(x.Session)), slices.Clone(x.SessionState), millisOf(x.Time), x.Session)
	case core.StoredMessage:
		return t.importMessage(q, x)
	case core.StoredSeen:
		home.see(x.Key, millisOf(x.Time))
	case core.StoredMove:
		home.move(x.Key, millisOf(x.Time))
	}
	return nil
}

// importMessage stores a message under its own number.
func (t *txn) importMessage(q *queue, x *core.Stored) error {
	_, n := core.SplitSequenceNumber(x.SequenceNumber)
	if n <= q.log.highest() {
		return core.Refuse(core.Conflict, "message %d comes after a later one", n)
	}
	e := t.newEntry(x.Message)
	e.origin, e.enqueued, e.expires = x.EnqueuedSequenceNumber, millisOf(x.EnqueuedTime), millisOf(x.ExpiresAt)
	e.failures, e.sessionful = x.DeliveryCount, x.InSession
	switch x.State {
	case core.Deferred:
		e.state = deferred
	case core.Scheduled:
		e.state, e.until, e.expires = scheduled, millisOf(x.ScheduledEnqueueTime), 0
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
