package state

import (
	"errors"
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Replay repeats the effects that a journal has stored, on an empty Store: first the pieces of a
// snapshot, then the frames in the order in which they were appended. Store.Start ends it.
type Replay struct {
	store   *Store
	at      Position
	records []Ref
	piece   bool // a piece is being replayed: isOld returns false
	err     error

	ref   core.Ref // the last lookup; the next fields are its results
	p     *partition
	home  *entityState
	queue *queue
}

var _ Sink = (*Replay)(nil)

func (s *Store) Replay() *Replay { return &Replay{store: s} }

func (r *Replay) Frame(at Position, records []Ref) {
	r.at, r.records, r.piece, r.p = at, records, false, nil
}

func (r *Replay) Happened(now int64) { r.store.latest = max(r.store.latest, now) }

func (r *Replay) Err() error { return r.err }

// Start ends the replay, reads messages that must be in memory, and continues to remove namespaces.
func (s *Store) Start() error {
	for _, p := range s.allPartitions() {
		p.pieces = nil
	}
	if err := s.whileOpening(s.loadScheduled); err != nil {
		return err
	}
	s.resumeRemovals()
	return nil
}

// Latest is the time of the last replayed call on the store itself, not on a view.
func (s *Store) Latest() time.Time { return core.Instant(s.latest) }

var errNoRecord = errors.New("a message refers to a record that is not in the same frame of the log")

// Do skips an effect whose object was deleted later, or that the loaded snapshot contains.
func (r *Replay) Do(x *Effect) {
	if x.Kind >= EffectEntity {
		r.catalogue(x)
		return
	}
	q := r.in(x.Of)
	if r.home == nil || q == nil {
		return
	}
	h := r.home
	if x.Kind >= EffectLast && x.Kind <= EffectClear && r.isOld(0) {
		return
	}
	switch x.Kind {
	case EffectPut:
		r.put(q, x.Object.(*Put))
	case EffectChange:
		if e := r.entry(q, x.Number); e != nil {
			q.replay(e, x.Object.(*Change))
		}
	case EffectRemove:
		if e := r.entry(q, x.Number); e != nil {
			q.remove(e)
		}
	case EffectPlace:
		if e := r.entry(q, x.Number); e != nil {
			e.ref = r.record(x.Record)
			q.demote(e)
		}
	case EffectLast:
		q.last = max(q.last, x.Number)
	case EffectSession:
		q.replaySession(x.Object.(*Session))
	case EffectEvent:
		if x.Number >= h.history.trimmed+int64(len(h.history.events)) {
			h.addEvent(*x.Object.(*core.Event), x.At)
		}
	case EffectTrim:
		if gone := min(x.Number-h.history.trimmed, int64(len(h.history.events))); gone > 0 {
			h.dropEvents(int(gone))
		}
		h.history.trimmed = max(h.history.trimmed, x.Number)
	case EffectSeen:
		h.remember(&h.seen, x.Text, x.At)
	case EffectSeenUntil:
		h.forget(&h.seen, x.At)
	case EffectMoved:
		h.remember(&h.moves, x.Text, x.At)
	case EffectMovedUntil:
		h.forget(&h.moves, x.At)
	case EffectForget:
		h.forgetMove(x.Text)
		h.moves.tidy()
	case EffectClear:
		r.clear()
	}
}

func (r *Replay) clear() {
	t := txn{partition: r.p, handle: &handle{Store: r.store}}
	t.clearAll()
	for _, w := range t.wakes { // no receiver waits during a replay
		w.queue.woken = false
	}
	clear(t.wakes)
	t.wakes = t.wakes[:0]
	r.p = nil // the cached queue is no longer the entity's
}

// in returns the queue that at identifies, or nil if its entity was deleted later.
func (r *Replay) in(at core.Ref) *queue {
	if r.p == nil || r.ref != at {
		r.ref, r.home, r.queue = at, nil, nil
		if r.p = r.store.partition(at); r.p != nil {
			r.home = r.p.entity(at.Subscription)
		}
		if r.home != nil && at.Sub < core.SubQueues {
			r.queue = r.home.queue(at.Sub)
		}
	}
	return r.queue
}

// isOld reports whether the loaded snapshot contains the current frame's effect on message n or,
// for n = 0, on something other than a message or session.
func (r *Replay) isOld(n int64) bool {
	return !r.piece && r.p.pieces.isOld(r.queue, n, r.at)
}

// entry returns the message n, or nil if the effect on it must be skipped.
func (r *Replay) entry(q *queue, n int64) *entry {
	if r.isOld(n) {
		return nil
	}
	e := q.entry(n)
	if e == nil && !r.store.lenient {
		r.err = fmt.Errorf("the log refers to message %d, which does not exist (sub-queue %d, subscription %q)", n, q.ref.Sub, q.ref.Subscription)
	}
	return e
}

func (r *Replay) record(i int32) (ref Ref) {
	if i < 0 || int(i) >= len(r.records) {
		r.err = errNoRecord
		return ref
	}
	return r.records[i]
}

func (r *Replay) put(q *queue, m *Put) {
	e := entry{
		n: m.Number, origin: m.Origin, enqueued: m.Enqueued, expires: m.Expires, size: m.Size,
		state: m.State, delayed: m.Delayed, byBroker: m.ByBroker, failures: m.Failures, until: m.Until, nonce: m.Nonce,
		sessionful: m.Sessionful, noted: !m.ID.IsZero(), ref: m.Ref,
	}
	if m.InFrame {
		e.ref = r.record(m.Record)
	}
	if m.Sessionful || e.noted || m.Body.Length > 0 || !m.Overlay.IsEmpty() || m.Died != 0 {
		e.more = &extra{m.Overlay, m.Body, m.Session, m.ID, m.Died}
	}
	switch {
	case r.err != nil || r.isOld(e.n):
	case q.log.highest() >= e.n:
		r.err = fmt.Errorf("the log has message %d after a message with a higher number", e.n)
	default:
		last := q.last
		if e.isPlain() {
			q.insertRow(&e)
		} else {
			q.insert(new(e))
		}
		q.last = max(q.last, last)
	}
}

func (q *queue) replay(e *entry, c *Change) {
	if !c.Overlay.IsEmpty() {
		e.change(func(more *extra) { more.overlay = c.Overlay })
		q.resize(e, c.Size)
	}
	q.quit(e) // needs e's old state and expiry
	e.failures, e.until, e.nonce, e.state, e.delayed, e.byBroker = c.Failures, c.Until, c.Nonce, c.State, c.Delayed, c.ByBroker
	q.join(e)
}

func (q *queue) replaySession(x *Session) {
	s := q.session(x.Key)
	q.grow(-s.weight())
	s.State, s.Stated, s.Stater = x.State, x.Stated, x.Stater
	q.grow(s.weight())
	s.Mode, s.Passed = x.Mode, x.Passed
	switch {
	case x.Until != 0:
		q.hold(s, x.Nonce, x.Until)
	case s.isHeld():
		q.letGo(s)
	default:
		q.review(s)
	}
}

// HasCatalogue reports whether the loaded snapshot has the frame's effects on the catalogue.
func (r *Replay) HasCatalogue() bool { return r.at < r.store.catalogued }

func (r *Replay) catalogue(x *Effect) {
	s := r.store
	switch x.Kind {
	case EffectEntity:
		e := x.Object.(*core.Entity)
		if e.Kind == core.Subscription && s.topics[e.TopicID] == nil {
			r.err = fmt.Errorf("the topic of the subscription %s does not exist", e)
			return
		}
		s.catalogue.enter(*e, x.Number)
		if r.piece {
			r.expectPieces(e)
		}
	case EffectNoEntity:
		s.catalogue.leave(entityKey{x.Text, x.Folded}, x.Number)
	case EffectRules:
		s.setRules(x.Text, *x.Object.(*[]core.Rule))
	case EffectRule:
		if _, known := s.rules[x.Text]; known {
			s.changeRule(x.Text, *x.Object.(*core.RuleChange))
		}
	case EffectSeal:
		s.sealed.remember(x.Text, x.At)
	case EffectUnseal:
		s.sealed.forget(x.At)
	case EffectNamespace:
		s.putNamespace(*x.Object.(*core.Namespace))
	case EffectNoNamespace:
		delete(s.namespaces, core.FoldName(x.Text))
	}
}
