package memstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

// A snapshot is a run of items, each its length and effects: the catalogue first, then the
// partitions in pieces. A piece is written while its partition's mutex is held, and no longer, so
// calls go on meanwhile; it says the position of the journal then. The first piece of an entity has
// the numbers of its queues; the others have messages of one sub-queue, from a number up to that of the
// next piece, or ids and keys that are remembered, sessions, or events. Frames before a piece's position
// say nothing new about what is in it: see pieces.isOld. Only of messages that has to be known by the
// piece. An effect says all of a session, and events have serial numbers; and ids may be remembered and
// forgotten again, from the first piece on: what was said last of each counts.
//
// A partition that is cleared while its pieces are written is written again from its beginning.

const (
	// pieceSize is how many messages, sessions or events a piece has at most, and of ids about.
	pieceSize = 1000
	// pieceBytes is how large a piece is when nothing more goes into it.
	pieceBytes = 1 << 20
)

// isFull reports whether a piece that has n things is to end.
func (o *snapshotWriter) isFull(n int) bool { return n >= pieceSize || len(o.x.buf) > pieceBytes }

// Snapshot writes what there is for Load: the same bytes for the same state, but for positions. referenced is called with each record that it names.
func (s *Store) Snapshot(w io.Writer, referenced func(Ref)) error {
	out := &snapshotWriter{w: w, store: s, referenced: referenced}
	if err := out.catalogue(); err != nil {
		return err
	}
	for _, p := range s.allPartitions() {
		for again := true; again; {
			var err error
			if again, err = out.partition(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// allPartitions lists the partitions that there are, by entity and index.
func (s *Store) allPartitions() (all []*partition) {
	s.catalogue.mu.RLock()
	defer s.catalogue.mu.RUnlock()
	for _, id := range slices.Sorted(maps.Keys(s.partitions)) {
		all = append(all, s.partitions[id]...)
	}
	return all
}

// homes are the queue or topic itself and a topic's subscriptions, none where it was deleted.
func (p *partition) homes() []*entityState {
	if p.own == nil {
		return nil
	}
	homes := []*entityState{p.own}
	for _, id := range slices.Sorted(maps.Keys(p.subscriptions)) {
		homes = append(homes, p.subscriptions[id])
	}
	return homes
}

type snapshotWriter struct {
	w          io.Writer
	store      *Store
	referenced func(Ref)
	x          effects // of the item under way
}

// item writes what was encoded.
func (o *snapshotWriter) item() error {
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(o.x.buf)))
	_, err := o.w.Write(length[:n])
	if err == nil {
		_, err = o.w.Write(o.x.buf)
	}
	o.x.buf = o.x.buf[:0]
	return err
}

// catalogue writes the catalogue and the registry as they are at one moment.
func (o *snapshotWriter) catalogue() error {
	s, x := o.store, &o.x
	s.registry.mu.RLock()
	defer s.registry.mu.RUnlock()
	s.catalogue.mu.RLock()
	defer s.catalogue.mu.RUnlock()
	x.kind(aboutPiece)
	x.uint(uint64(s.journal.End()))
	x.buf = append(x.buf, byte(pieceCatalogue))
	x.int(s.millis())
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		x.namespace(new(s.byName[name]))
	}
	for _, id := range s.sealed.order {
		x.seal(id.key, id.at)
	}
	for _, kind := range []core.Kind{core.Queue, core.Topic, core.Subscription} {
		for _, namespace := range slices.Sorted(maps.Keys(s.spaces)) {
			space := s.spaces[namespace]
			for _, folded := range slices.Sorted(maps.Keys(space.entities)) {
				e := space.entities[folded]
				if e.Kind != kind {
					continue
				}
				version := int64(0)
				if t := s.topics[e.ID]; t != nil {
					version = t.version
				} else if t := s.topics[e.TopicID]; t != nil {
					version = t.version
				}
				x.entity(&e, version)
				if e.Kind == core.Subscription {
					x.rules(e.ID, s.rules[e.ID].page(0, allRules))
				}
			}
		}
	}
	return o.item()
}

// partition writes the pieces of p. again says that p was cleared meanwhile.
func (o *snapshotWriter) partition(p *partition) (again bool, err error) {
	p.mu.Lock()
	cleared, homes := p.cleared, p.homes()
	p.mu.Unlock()
	for _, home := range homes {
		var keys [core.SubQueues][]core.SessionKey
		err := o.piece(p, home, pieceHome, func() {
			for sub, q := range home.queues {
				if q != nil {
					keys[sub] = slices.Collect(maps.Keys(q.sessions))
				}
			}
			o.home(home)
		})
		if err == nil {
			err = o.ids(p, home, effectSeen, &home.seen)
		}
		if err == nil {
			err = o.ids(p, home, effectMoved, &home.moves)
		}
		if err != nil {
			return false, err
		}
		for sub := range core.SubQueues {
			if err := o.queue(p, home, sub, keys[sub]); err != nil {
				return false, err
			}
		}
		if err := o.events(p, home); err != nil {
			return false, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cleared != cleared, nil
}

// pieceKind says what a piece has.
type pieceKind byte

const (
	pieceCatalogue pieceKind = iota
	pieceHome
	pieceMessages
	pieceSessions
	pieceEvents
	pieceIDs
)

// piece writes what is encoded of an entity while the mutex of its partition is held.
func (o *snapshotWriter) piece(p *partition, home *entityState, k pieceKind, encode func()) error {
	p.mu.Lock()
	o.x.kind(aboutPiece)
	o.x.uint(uint64(o.store.journal.End()))
	o.x.buf = append(o.x.buf, byte(k))
	o.x.string(p.entityID)
	o.x.uint(uint64(p.index))
	o.x.string(home.ref.Subscription)
	encode()
	p.mu.Unlock()
	o.x.begun, o.x.home = false, nil
	return o.item()
}

// home encodes the numbers of the queues.
func (o *snapshotWriter) home(home *entityState) {
	x := &o.x
	x.begun, x.home, x.sub = true, home, core.Main
	for _, q := range home.queues {
		if q != nil && q.last > 0 {
			x.last(q)
		}
	}
}

// ids writes what is remembered. A piece ends between two instants, by which the next one goes on.
func (o *snapshotWriter) ids(p *partition, home *entityState, k effectKind, s *seenIDs) error {
	for after, more := int64(math.MinInt64), true; more; {
		err := o.piece(p, home, pieceIDs, func() {
			o.x.begun, o.x.home, o.x.sub = true, home, core.Main
			rest := s.behind(after)
			written := make(map[string]bool) // a key that was forgotten and seen again is there twice
			for i, id := range rest {
				if id.at != after && i > 0 && o.isFull(i) {
					return
				}
				if after = id.at; s.known[id.key] == id.at && !written[id.key] {
					written[id.key] = true
					o.x.text(home, k, id.key, id.at)
				}
			}
			more = false
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// queue writes the sessions and messages of a sub-queue.
func (o *snapshotWriter) queue(p *partition, home *entityState, sub core.SubQueue, keys []core.SessionKey) error {
	x := &o.x
	slices.Sort(keys)
	for len(keys) > 0 {
		err := o.piece(p, home, pieceSessions, func() {
			x.begun, x.home, x.sub = true, home, core.Main
			q := home.queue(sub)
			for n := 0; len(keys) > 0 && !o.isFull(n); n++ {
				if s := q.sessions[keys[0]]; s != nil && (s.isHeld() || s.state != nil) {
					x.session(q, s)
				}
				keys = keys[1:]
			}
		})
		if err != nil {
			return err
		}
	}
	for next, more := int64(0), true; more; {
		err := o.piece(p, home, pieceMessages, func() {
			x.begun, x.home, x.sub = true, home, core.Main
			x.buf = append(x.buf, byte(sub))
			x.uint(uint64(next))
			q, n := home.queues[sub], 0
			more = false
			if q == nil {
				return
			}
			for e := range q.log.from(next) {
				if o.isFull(n) {
					next, more = e.n, true
					break
				}
				x.put(q, e)
				o.referenced(e.ref)
				if e.more != nil && e.more.body.Length > 0 {
					o.referenced(e.more.body)
				}
				n++
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// events writes the history of an entity.
func (o *snapshotWriter) events(p *partition, home *entityState) error {
	for next, more := int64(0), true; more; {
		err := o.piece(p, home, pieceEvents, func() {
			o.x.begun, o.x.home, o.x.sub = true, home, core.Main
			h := &home.history
			if next == 0 && h.trimmed > 0 {
				o.x.until(home, effectTrim, h.trimmed)
			}
			next = max(next, h.trimmed)
			for n := 0; !o.isFull(n) && next < h.trimmed+int64(len(h.events)); n++ {
				i := next - h.trimmed
				o.x.event(home, next, &h.events[i], h.written[i])
				next++
			}
			more = next < h.trimmed+int64(len(h.events))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pieces are what a partition was loaded of.
type pieces struct {
	homes map[string]*homePieces // by subscription
}

type homePieces struct {
	gone  bool                   // it was deleted before its first piece was written
	at    Position               // of the first piece
	spans [core.SubQueues][]span // by number
}

// span says that messages from a number on, up to the next span, are as they were at a position.
type span struct {
	from int64
	at   Position
}

// isOld reports whether the pieces have the effect of a frame on message n of a queue, or, for 0, on
// what is in the first piece of the entity.
func (p *pieces) isOld(q *queue, n int64, at Position) bool {
	if q == nil {
		return false
	}
	h := p.homes[q.ref.Subscription]
	if h == nil {
		return false
	}
	if n == 0 || h.gone {
		return h.gone || at < h.at
	}
	spans := h.spans[q.ref.Sub]
	for i := len(spans) - 1; i >= 0; i-- {
		if spans[i].from <= n {
			return at < spans[i].at
		}
	}
	return false
}

// Load fills an empty Store with what Snapshot has written. After an error it is of no use.
func (s *Store) Load(r io.ByteReader, read func([]byte) error) error {
	var buf []byte
	for {
		n, err := binary.ReadUvarint(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if n > maxItem {
			return fmt.Errorf("an item of a snapshot has %d bytes", n)
		}
		buf = slices.Grow(buf[:0], int(n))[:n]
		if err := read(buf); err != nil {
			return err
		}
		if err := s.Apply(0, buf, nil); err != nil {
			return err
		}
	}
}

// maxItem bounds what is read at once.
const maxItem = 1 << 30

// loadPiece loads a piece of a snapshot.
func (r *replay) loadPiece() error {
	at, kind := Position(r.uint()), pieceKind(r.byte())
	if kind == pieceCatalogue {
		r.store.latest = max(r.store.latest, r.int())
		if err := r.catalogue(); err != nil {
			return err
		}
		r.store.catalogued = at
		for _, p := range r.store.allPartitions() {
			p.pieces = &pieces{homes: make(map[string]*homePieces)}
			for _, home := range p.homes() {
				p.pieces.homes[home.ref.Subscription] = &homePieces{gone: true}
			}
		}
		return nil
	}
	entity, index, subscription := r.string(), r.uint(), r.string()
	p := r.store.partition(core.Ref{Entity: entity, Index: uint16(index)})
	if p == nil || p.entity(subscription) == nil {
		r.rest = nil // created after the catalogue was written: the frames have all of it
		return nil
	}
	home := p.entity(subscription)
	r.p = p
	if p.pieces == nil {
		return errors.New("a piece of a partition comes before the catalogue")
	}
	if kind == pieceHome {
		home.reset()
		p.pieces.homes[subscription] = &homePieces{at: at}
	}
	own := p.pieces.homes[subscription]
	sub := core.Main
	if kind == pieceMessages {
		sub = core.SubQueue(r.byte())
		from := int64(r.uint())
		if sub >= core.SubQueues {
			return errUnknownEffect
		}
		own.spans[sub] = append(own.spans[sub], span{from, at})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	saved := p.pieces
	p.pieces = nil // what is in a piece is never old
	defer func() { p.pieces = saved }()
	r.selectQueue(home, core.Main)
	for len(r.rest) > 0 {
		if err := r.effect(effectKind(r.byte())); err != nil {
			return err
		}
	}
	return nil
}

// reset empties what an earlier attempt to write the partition has loaded.
func (b *entityState) reset() {
	b.partition.bytes -= b.bytes()
	for _, q := range b.queues {
		if q != nil {
			q.evict()
		}
	}
	b.queues = [core.SubQueues]*queue{}
	b.forgetAll()
}
