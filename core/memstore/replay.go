package memstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Replay does the effects again that a journal has kept. It is for an empty Store, before any other
// call: the pieces of a snapshot come first, then frames in the order in which they were appended, and
// Start follows.
type Replay struct {
	store   *Store
	at      Position // of the frame or piece under way
	records []Ref    // of the frame
	piece   bool     // what is in a piece is never old
	err     error

	ref   core.Ref // of what was looked up last:
	p     *partition
	home  *entityState
	queue *queue
}

var _ Sink = (*Replay)(nil)

// Replay begins a replay. Each frame and each piece of a snapshot is a part of it.
func (s *Store) Replay() *Replay { return &Replay{store: s} }

// Frame begins a frame, whose records are where it says.
func (r *Replay) Frame(at Position, records []Ref) {
	r.at, r.records, r.piece, r.p = at, records, false, nil
}

// Happened says when the call of the frame has happened.
func (r *Replay) Happened(now int64) { r.store.latest = max(r.store.latest, now) }

// Err is why the store cannot be made.
func (r *Replay) Err() error { return r.err }

// Start ends the replay: messages that must be in memory are read, and removals that were under way
// go on.
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

// Latest is when the last of the calls that were replayed has happened, zero if none was. Calls of
// views do not count.
func (s *Store) Latest() time.Time { return instant(s.latest) }

var (
	errNoRecord = errors.New("a message has a record that the frame does not have")
	// ErrUnknownEffect says that a later version has written an effect.
	ErrUnknownEffect = errors.New("an effect is of a kind that this version does not know")
)

// in looks up a queue. It is nil where the effects are about an entity that was deleted since.
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

// of looks up what a queue, topic or subscription has of a partition, nil where that was deleted since,
// or where a snapshot that was loaded had the effect.
func (r *Replay) of(at core.Ref) *entityState {
	if r.in(at); r.isOld(0) {
		return nil
	}
	return r.home
}

// isOld reports whether a snapshot that was loaded had the effect of this frame on message n, or, for
// 0, on what is not about a message or a session.
func (r *Replay) isOld(n int64) bool {
	return !r.piece && r.p != nil && r.p.pieces != nil && r.p.pieces.isOld(r.queue, n, r.at)
}

// entry looks up a message, nil where the effect on it is passed over.
func (r *Replay) entry(at core.Ref, n int64) *entry {
	q := r.in(at)
	if q == nil || r.isOld(n) {
		return nil
	}
	e := q.entry(n)
	if e == nil && !r.store.lenient {
		r.err = fmt.Errorf("message %d of sub-queue %d of %q is not there", n, at.Sub, at.Subscription)
	}
	return e
}

// record is where a record of the frame lies.
func (r *Replay) record(i int32) (ref Ref) {
	if i <= 0 || int(i) > len(r.records) {
		r.err = errNoRecord
		return ref
	}
	return r.records[i-1]
}

// Put implements Sink.
func (r *Replay) Put(at core.Ref, m *Put) {
	q := r.in(at)
	e := entry{
		n: m.Number, origin: m.Origin, enqueued: m.Enqueued, expires: m.Expires, size: m.Size,
		state: m.State, delayed: m.Delayed, byBroker: m.ByBroker, failures: m.Failures, until: m.Until, nonce: m.Nonce,
		sessionful: m.Sessionful, noted: !m.ID.IsZero(), ref: m.Ref,
	}
	if m.Record != 0 {
		e.ref = r.record(m.Record)
	}
	if m.Sessionful || e.noted || m.Body.Length > 0 || !m.Overlay.IsEmpty() {
		e.more = &extra{m.Overlay, m.Body, m.Session, m.ID}
	}
	switch {
	case r.err != nil || q == nil || r.isOld(e.n):
	case q.log.highest() >= e.n:
		r.err = fmt.Errorf("message %d comes after a later one", e.n)
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

// Change implements Sink.
func (r *Replay) Change(at core.Ref, n int64, c *Change) {
	e := r.entry(at, n)
	if e == nil {
		return
	}
	q := r.queue
	if !c.Overlay.IsEmpty() {
		e.change(func(more *extra) { more.overlay = c.Overlay })
		q.resize(e, c.Size)
	}
	q.quit(e) // by its state and its expiry, which does not change
	e.failures, e.until, e.nonce, e.state, e.delayed, e.byBroker = c.Failures, c.Until, c.Nonce, c.State, c.Delayed, c.ByBroker
	q.join(e)
}

// Remove implements Sink.
func (r *Replay) Remove(at core.Ref, n int64) {
	if e := r.entry(at, n); e != nil {
		r.queue.remove(e)
	}
}

// Place implements Sink.
func (r *Replay) Place(at core.Ref, n int64, record int32) {
	if e := r.entry(at, n); e != nil {
		e.ref = r.record(record)
		r.queue.demote(e)
	}
}

// Last implements Sink.
func (r *Replay) Last(at core.Ref, n int64) {
	if q := r.in(at); q != nil {
		q.last = max(q.last, n)
	}
}

// Session implements Sink.
func (r *Replay) Session(at core.Ref, x Session) {
	q := r.in(at)
	if q == nil {
		return
	}
	s := q.session(x.Key)
	q.grow(-s.weight())
	s.state, s.stated, s.stater = x.State, x.Stated, x.Stater
	q.grow(s.weight())
	s.mode, s.passed = x.Mode, x.Passed
	switch {
	case x.Until != 0:
		q.hold(s, x.Nonce, x.Until)
	case s.isHeld():
		q.letGo(s)
	default:
		q.review(s)
	}
}

// Clear implements Sink.
func (r *Replay) Clear(at core.Ref) {
	if r.of(at) == nil {
		return
	}
	t := txn{partition: r.p, handle: &handle{Store: r.store}}
	t.clearAll()
	for _, w := range t.wakes { // no receiver waits yet
		w.queue.woken = false
	}
	clear(t.wakes)
	t.wakes = t.wakes[:0]
	r.p = nil // it has other queues now
}

// Seen implements Sink.
func (r *Replay) Seen(at core.Ref, id string, when int64) {
	if h := r.of(at); h != nil {
		h.see(id, when)
	}
}

// SeenUntil implements Sink.
func (r *Replay) SeenUntil(at core.Ref, until int64) {
	if h := r.of(at); h != nil {
		h.forgetSeen(until)
	}
}

// Moved implements Sink.
func (r *Replay) Moved(at core.Ref, key string, when int64) {
	if h := r.of(at); h != nil {
		h.remember(&h.moves, key, when)
	}
}

// MovedUntil implements Sink.
func (r *Replay) MovedUntil(at core.Ref, until int64) {
	if h := r.of(at); h != nil {
		h.forget(&h.moves, until)
	}
}

// Forget implements Sink.
func (r *Replay) Forget(at core.Ref, key string) {
	if h := r.of(at); h != nil {
		h.forgetMove(key)
		h.moves.tidy()
	}
}

// Event implements Sink.
func (r *Replay) Event(at core.Ref, serial, written int64, e *core.Event) {
	r.in(at)
	if b := r.home; b != nil && serial >= b.history.trimmed+int64(len(b.history.events)) {
		b.addEvent(*e, written)
	}
}

// Trim implements Sink.
func (r *Replay) Trim(at core.Ref, first int64) {
	r.in(at)
	if b := r.home; b != nil {
		if gone := min(first-b.history.trimmed, int64(len(b.history.events))); gone > 0 {
			b.dropEvents(int(gone))
		}
		b.history.trimmed = max(b.history.trimmed, first)
	}
}

// HasCatalogue reports whether the snapshot that was loaded has the effects of this frame on the
// catalogue.
func (r *Replay) HasCatalogue() bool { return r.at < r.store.catalogued }

// Entity implements Sink.
func (r *Replay) Entity(e *core.Entity, version int64) {
	if e.Kind == core.Subscription && r.store.topics[e.TopicID] == nil {
		r.err = fmt.Errorf("subscription %s has no topic", e)
		return
	}
	r.store.catalogue.enter(*e, version)
	if r.piece {
		r.expectPieces(e)
	}
}

// NoEntity implements Sink.
func (r *Replay) NoEntity(namespace, folded string, version int64) {
	r.store.catalogue.leave(entityKey{namespace, folded}, version)
}

// Rules implements Sink.
func (r *Replay) Rules(id string, rules []core.Rule) { r.store.setRules(id, rules) }

// Rule implements Sink.
func (r *Replay) Rule(id string, c *core.RuleChange) {
	if b := r.store.rules[id]; b != nil {
		b.change(*c)
	}
}

// Seal implements Sink.
func (r *Replay) Seal(namespace string, at int64) { r.store.sealed.remember(namespace, at) }

// Unseal implements Sink.
func (r *Replay) Unseal(until int64) { r.store.sealed.forget(until) }

// Namespace implements Sink.
func (r *Replay) Namespace(n *core.Namespace) { r.store.registry.put(*n) }

// NoNamespace implements Sink.
func (r *Replay) NoNamespace(name string) { delete(r.store.byName, core.FoldName(name)) }
