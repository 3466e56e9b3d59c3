package memstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Apply does the effects of a frame that a journal has kept, which begins at a position and has
// records. It is for an empty Store, or one that Load has filled, before any other call; frames
// come in the order in which they were appended, and Start follows.
func (s *Store) Apply(at Position, frame []byte, records []Ref) error {
	r := &replay{reader: reader{rest: frame}, store: s, at: at, records: records}
	err := r.apply()
	if err == nil {
		err = r.reader.err
	}
	if err != nil {
		return fmt.Errorf("apply the frame at %x: %w", at, err)
	}
	return nil
}

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

// replay applies one frame.
type replay struct {
	reader
	store   *Store
	at      Position
	records []Ref
	p       *partition
	home    *entityState
	queue   *queue
	e       entry // of the put under way
}

func (r *replay) apply() error {
	switch effectKind(r.byte()) {
	case aboutCatalogue:
		return r.catalogue()
	case aboutPartition:
		return r.partition(false)
	case aboutPartitionVirtual:
		return r.partition(true)
	case aboutPiece:
		return r.loadPiece()
	}
	return errors.New("it is about something that this version does not know")
}

// Latest is when the last of the calls that were applied has happened, zero if none was. Calls of
// views do not count.
func (s *Store) Latest() time.Time { return instant(s.latest) }

var errNoRecord = errors.New("a message has a record that the frame does not have")

var errUnknownEffect = errors.New("an effect is of a kind that this version does not know")

// partition applies effects of a partition. Those of one that was deleted since are passed over.
func (r *replay) partition(virtual bool) error {
	entity, index, now := r.string(), r.uint(), r.int()
	if !virtual {
		r.store.latest = max(r.store.latest, now)
	}
	p := r.store.partition(core.Ref{Entity: entity, Index: uint16(index)})
	if p == nil || r.err != nil {
		r.rest = nil
		return nil
	}
	r.p, r.home = p, p.own
	p.mu.Lock()
	defer p.mu.Unlock()
	r.selectQueue(p.own, core.Main)
	for len(r.rest) > 0 {
		if err := r.effect(effectKind(r.byte())); err != nil {
			return fmt.Errorf("%s/%d: %w", entity, index, err)
		}
	}
	return nil
}

func (r *replay) selectQueue(home *entityState, sub core.SubQueue) {
	r.home, r.queue = home, nil
	if home != nil && sub < core.SubQueues {
		r.queue = home.queue(sub)
	}
}

func (r *replay) effect(k effectKind) error {
	switch k {
	case effectSelect:
		subscription := r.string()
		r.selectQueue(r.p.entity(subscription), core.SubQueue(r.byte()))
	case effectPut:
		return r.put()
	case effectState:
		return r.state()
	case effectRemove:
		n := int64(r.uint())
		if q := r.queue; q != nil && !r.isOld(n) {
			e := q.entry(n)
			if e == nil {
				return r.missing(n)
			}
			q.remove(e)
		}
	case effectPlace:
		n, i := int64(r.uint()), r.uint()
		if q := r.queue; q != nil && !r.isOld(n) {
			e := q.entry(n)
			if e == nil {
				return r.missing(n)
			}
			if i >= uint64(len(r.records)) {
				return errNoRecord
			}
			e.ref = r.records[i]
			q.demote(e)
		}
	case effectLast:
		last := int64(r.uint())
		if q := r.queue; q != nil {
			q.last = max(q.last, last)
		}
	case effectSession:
		r.session()
	case effectSeen, effectMoved, effectForget:
		r.key(k)
	case effectSeenUntil, effectMovedUntil:
		until := r.int()
		if h := r.home; h == nil || r.isOld(0) {
			break
		} else if k == effectSeenUntil {
			h.forgetSeen(until)
		} else {
			h.forget(&h.moves, until)
		}
	case effectEvent:
		r.event()
	case effectTrim:
		first := r.int()
		if h := r.home; h != nil {
			if gone := min(first-h.history.trimmed, int64(len(h.history.events))); gone > 0 {
				h.dropEvents(int(gone))
			}
			h.history.trimmed = max(h.history.trimmed, first)
		}
	case effectClear:
		if !r.isOld(0) {
			t := txn{partition: r.p, handle: &handle{Store: r.store}}
			t.clearAll()
			for _, w := range t.wakes { // no receiver waits yet
				w.queue.woken = false
			}
			clear(t.wakes)
			t.wakes = t.wakes[:0]
			r.selectQueue(r.p.own, core.Main)
		}
	default:
		return errUnknownEffect
	}
	return nil
}

func (r *replay) missing(n int64) error {
	if r.store.lenient {
		return nil
	}
	return fmt.Errorf("message %d of sub-queue %d of %q is not there", n, r.queue.ref.Sub, r.home.ref.Subscription)
}

// isOld reports whether a snapshot that was loaded had the effect of this frame on message n, or, for
// 0, on what is not about a message or a session.
func (r *replay) isOld(n int64) bool {
	return r.p.pieces != nil && r.p.pieces.isOld(r.queue, n, r.at)
}

func (r *replay) put() error {
	flags := r.uint()
	e := &r.e
	*e = entry{
		state: messageState(flags & flagState), delayed: flags&flagDelayed != 0, sessionful: flags&flagSessionful != 0,
		n: int64(r.uint()), origin: r.int(), enqueued: r.int(), expires: r.int(), failures: uint32(r.int()), size: int(r.int()),
		noted: flags&flagID != 0, byBroker: flags&flagByBroker != 0,
	}
	if e.state >= messageStates || flags >= flagsEnd {
		return errUnknownEffect
	}
	r.changing(e)
	if flags&flagInFrame != 0 {
		i := r.uint()
		if i >= uint64(len(r.records)) {
			return errNoRecord
		}
		e.ref = r.records[i]
	} else {
		e.ref = r.ref()
	}
	var more extra
	if flags&flagSessionful != 0 {
		more.session = r.string()
	}
	if flags&flagOverlay != 0 {
		more.overlay = r.properties()
	}
	if flags&flagBody != 0 {
		more.body = r.ref()
	}
	if flags&flagID != 0 {
		more.id = r.id()
	}
	if flags&(flagSessionful|flagOverlay|flagBody|flagID) != 0 {
		e.more = &more
	}
	q := r.queue
	switch {
	case r.err != nil || q == nil || r.isOld(e.n):
	case q.log.highest() >= e.n:
		return fmt.Errorf("message %d comes after a later one", e.n)
	default:
		last := q.last
		if e.isPlain() {
			q.insertRow(e)
		} else {
			q.insert(new(*e))
		}
		q.last = max(q.last, last)
	}
	return nil
}

func (r *replay) changing(e *entry) {
	if e.state.isTimed() {
		e.until = r.int()
	}
	if e.state.isLocked() {
		e.nonce = r.fixed64()
	}
}

func (r *replay) ref() Ref { return Ref{Position(r.uint()), uint32(r.uint())} }

func (r *replay) properties() core.Properties { return core.RawProperties(slices.Clone(r.bytes())) }

func (r *replay) state() error {
	flags, n := r.uint(), int64(r.uint())
	to := entry{state: messageState(flags & flagState), failures: uint32(r.uint())}
	r.changing(&to)
	size, overlay := 0, core.Properties{}
	if flags&flagOverlay != 0 {
		size, overlay = int(r.uint()), r.properties()
	}
	if to.state >= messageStates || flags >= flagsEnd {
		return errUnknownEffect
	}
	q := r.queue
	if r.err != nil || q == nil || r.isOld(n) {
		return nil
	}
	e := q.entry(n)
	if e == nil {
		return r.missing(n)
	}
	if !overlay.IsEmpty() {
		e.change(func(more *extra) { more.overlay = overlay })
		q.resize(e, size)
	}
	q.quit(e) // by its state and its expiry, which does not change
	e.failures, e.until, e.nonce, e.state = to.failures, to.until, to.nonce, to.state
	e.delayed, e.byBroker = flags&flagDelayed != 0, flags&flagByBroker != 0
	q.join(e)
	return nil
}

func (r *replay) session() {
	key := core.SessionKey(r.string())
	until, nonce, mode, passed := r.int(), r.fixed64(), core.SessionMode(r.byte()), uint32(r.uint())
	var state []byte
	var stated int64
	var stater string
	if r.bool() {
		state = append([]byte{}, r.bytes()...)
		stated, stater = r.int(), r.string()
	}
	q := r.queue
	if r.err != nil || q == nil {
		return
	}
	s := q.session(key)
	q.grow(-s.weight())
	s.state, s.stated, s.stater = state, stated, stater
	q.grow(s.weight())
	s.mode, s.passed = mode, passed
	switch {
	case until != 0:
		q.hold(s, nonce, until)
	case s.isHeld():
		q.letGo(s)
	default:
		q.review(s)
	}
}

func (r *replay) key(k effectKind) {
	key, at := r.string(), r.int()
	h := r.home
	if r.err != nil || h == nil || r.isOld(0) {
		return
	}
	switch k {
	case effectSeen:
		h.see(key, at)
	case effectMoved:
		h.remember(&h.moves, key, at)
	default:
		h.forgetMove(key)
		h.moves.tidy()
	}
}

func (r *replay) event() {
	serial, written := r.int(), r.int()
	e := core.Event{
		Time: instant(r.int()), Kind: core.EventKind(r.string()), Sub: core.SubQueue(r.byte()), Number: r.int(), Other: r.int(),
		MessageID: r.id(), Count: uint32(r.uint()), Until: instant(r.int()), Reason: r.string(),
	}
	for _, text := range [...]*string{&e.By.Policy, &e.By.Peer, &e.Entity, &e.Rule, &e.Plugin, &e.Gateway} {
		*text = r.string()
	}
	if r.err != nil || r.home == nil {
		return
	}
	if h := &r.home.history; serial >= h.trimmed+int64(len(h.events)) {
		r.home.addEvent(e, written)
	}
}

// catalogue applies effects of the catalogue and the registry.
func (r *replay) catalogue() error {
	s := r.store
	if r.at < s.catalogued {
		r.rest = nil // the snapshot has them
		return nil
	}
	for len(r.rest) > 0 && r.err == nil {
		var err error
		switch effectKind(r.byte()) {
		case effectEntity:
			version := r.int()
			var e core.Entity
			if err = r.object(&e); err == nil {
				err = s.replayEntity(e, version)
			}
		case effectNoEntity:
			key := entityKey{r.string(), r.string()}
			s.catalogue.leave(key, r.int())
		case effectRules:
			id := r.string()
			var rules []core.Rule
			if err = r.object(&rules); err == nil {
				s.setRules(id, rules)
			}
		case effectRule:
			id := r.string()
			var change core.RuleChange
			if err = r.object(&change); err == nil && s.rules[id] != nil {
				s.rules[id].change(change)
			}
		case effectSeal:
			s.sealed.remember(r.string(), r.int())
		case effectUnseal:
			s.sealed.forget(r.int())
		case effectNamespace:
			var n core.Namespace
			if err = r.object(&n); err == nil {
				s.registry.put(n)
			}
		case effectNoNamespace:
			delete(s.byName, core.FoldName(r.string()))
		default:
			err = errUnknownEffect
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) replayEntity(e core.Entity, version int64) error {
	if e.Kind == core.Subscription && s.topics[e.TopicID] == nil {
		return fmt.Errorf("subscription %s has no topic", &e)
	}
	s.catalogue.enter(e, version)
	return nil
}

func (r *replay) object(into any) error {
	b := r.bytes()
	if r.err != nil {
		return r.err
	}
	return json.Unmarshal(b, into)
}
