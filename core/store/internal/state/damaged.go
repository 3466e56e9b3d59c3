package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

// ErrDamaged is the error for a record that is missing, or that differs from what was written.
// After any other error of Journal.Read, the record may be readable later.
var ErrDamaged = errors.New("the message is damaged")

type found struct {
	number int64
	ref    Ref
	err    error
}

// putAside marks damaged messages, so that they are not delivered. It counts no failed delivery. It
// runs after the call that read the messages has unlocked the partition. It wakes receivers, which
// may have got fewer messages than they requested.
func (t *txn) putAside(damaged []found) {
	n, _, ok := t.enterOnce(nil)
	if !ok {
		return
	}
	for _, x := range damaged {
		_, at := core.SplitSequenceNumber(x.number)
		e := n.queue.entry(at)
		if e == nil || e.ref != x.ref || e.state == broken {
			continue
		}
		if of := e.session; of != nil && of.isHeld() {
			n.wakeHolder(n.queue, of)
		}
		n.queue.move(e, broken)
		n.wakeReceivers(n.queue)
	}
	n.leave()
	for _, x := range damaged {
		t.Store.journal.PutAside(t.Store.address(t.Ref), x.number, x.err)
	}
}

// giveBack counts no failed deliveries.
func (t *txn) giveBack(ds []core.Delivery) {
	n, _, ok := t.enterOnce(nil)
	if !ok {
		return
	}
	for i := range ds {
		if e := n.holder(ds[i].LockToken); e != nil {
			n.note(core.EventReleased, n.queue, e)
			n.unlock(n.queue, e, "")
		}
	}
	n.leave()
}

func (s *Store) Damaged() int64 { return s.remembered.damaged.Load() }

// PeekDamaged reads each damaged message again, to return the reason.
func (p *handle) PeekDamaged(_ context.Context, from int64, limit int) ([]core.DamagedMessage, error) {
	t, ok := p.enter()
	if !ok {
		return nil, nil
	}
	var damaged []core.DamagedMessage
	limit = min(limit, int(t.queue.counts[broken]))
	for e := range t.queue.log.aside(from, broken) {
		if len(damaged) >= limit {
			break
		}
		damaged = append(damaged, core.DamagedMessage{BrokerProperties: t.delivery(e).BrokerProperties, SessionID: e.sessionID()})
	}
	t.leave()
	defer t.unpin()
	for i := range damaged {
		_, err := p.read(t.absent[i].ref, t.absent[i].more)
		if err == nil {
			err = errors.New("the message was unreadable, but is readable now: start the gateway once with --repair to deliver it")
		}
		damaged[i].Reason = err.Error()
	}
	return damaged, p.stopped()
}

func (s *Store) address(of core.Ref) string {
	id := cmp.Or(of.Subscription, of.Entity)
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, x := range s.catalogue.spaces {
		for _, e := range x.entities {
			if e.ID == id {
				return e.Name + of.Sub.Suffix()
			}
		}
	}
	return id
}

// RemoveDamaged reads all messages and removes the damaged ones. A message that was put aside but
// can now be read becomes available. For each message that it changes, RemoveDamaged calls done:
// with nil if the message became available, otherwise with the damage. It must be called after
// Start and before any other call.
func (s *Store) RemoveDamaged(done func(entity string, sequenceNumber int64, err error)) error {
	return s.whileOpening(func(t *txn, q *queue) error {
		var damaged []int64
		var sound []*entry
		var messages []*core.Message
		for e := range q.log.from(0) {
			m, err := s.read(e.ref, e.more)
			switch {
			case err == nil && e.state == broken:
				sound, messages = append(sound, e), append(messages, m)
			case err == nil:
				continue
			case errors.Is(err, ErrDamaged):
				damaged = append(damaged, e.n)
			default:
				return fmt.Errorf("cannot read message %d of %v: %w", e.n, t.Ref, err)
			}
			done(s.address(q.ref), t.number(e.n), err)
		}
		for _, n := range damaged {
			q.remove(q.entry(n))
		}
		for i, e := range sound {
			e.setMessage(messages[i])
			e.message = nil
			if e.until = messages[i].ScheduledEnqueueTime.UnixMilli(); e.until > t.now {
				q.move(e, scheduled)
			} else {
				q.move(e, again)
			}
		}
		return nil
	})
}

// Records calls found for each record with a message and, with large set, for each separate record
// of a large body. It must be called after Start and before any other call.
func (s *Store) Records(found func(r Ref, large bool)) {
	_ = s.whileOpening(func(_ *txn, q *queue) error { // visit never fails
		for e := range q.log.from(0) {
			found(e.ref, false)
			if e.more != nil && e.more.body.Length > 0 {
				found(e.more.body, true)
			}
		}
		return nil
	})
}

// loadScheduled reads scheduled messages into memory: becoming due needs data that only they have.
func (s *Store) loadScheduled(t *txn, q *queue) error {
	for _, e := range slices.Collect(q.schedules.all()) {
		m, err := s.read(e.ref, e.more)
		if errors.Is(err, ErrDamaged) {
			q.move(e, broken)
			s.journal.PutAside(s.address(q.ref), t.number(e.n), err)
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot read scheduled message %d of %v: %w", e.n, q.ref, err)
		}
		if e.setMessage(m); e.state == scheduled {
			e.message = nil
		}
	}
	return nil
}

func (s *Store) whileOpening(visit func(t *txn, q *queue) error) error {
	for _, p := range s.allPartitions() {
		t := txn{partition: p, handle: &handle{Store: s, Ref: core.Ref{Entity: p.entityID, Index: p.index}}, now: s.millis()}
		p.mu.Lock()
		s.beginAt(p, nil, t.now)
		var err error
		for _, t.home = range p.homes() {
			for _, q := range t.home.queues {
				if q != nil && err == nil {
					err = visit(&t, q)
				}
			}
		}
		t.leave()
		if err != nil {
			return err
		}
	}
	return nil
}
