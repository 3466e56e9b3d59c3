package state

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

// A snapshot consists of pieces, which contain effects: first the catalogue, then the pieces of
// each partition. A writer holds the partition's mutex only for one piece at a time, so calls
// continue between pieces. Each piece has the journal's position at its time, and contains the
// effects of all earlier frames (see pieces.isOld).
// The first piece of an entity has the numbers of its queues. Each of the others contains messages
// of one sub-queue (from Piece.From up to that of the next piece), or ids and keys, or sessions, or
// events. Only for messages does the replay compare positions piece by piece. All other effects may
// be repeated from the first piece on: an effect has all data of a session, events have serial
// numbers, and ids may be remembered and forgotten twice. If a partition is cleared while its
// pieces are written, they are all written again.

// pieceSize limits the messages, sessions and events, and approximately the ids, in a piece. A
// piece with many bytes ends earlier.
const pieceSize = 1000

type Piece struct {
	Kind PieceKind
	Now  int64    // for the catalogue: when the piece was written
	Of   core.Ref // the entity's main queue; for messages, their queue
	From int64    // for messages: the lowest number that belongs to the piece
}

// PieceKind is stored by journals.
type PieceKind byte

const (
	PieceCatalogue PieceKind = iota
	PieceHome
	PieceMessages
	PieceSessions
	PieceEvents
	PieceIDs
)

// Snapshot stores pieces. The effects of a piece come between Begin and End. Begin, Do and IsLarge
// are called with the mutex of the catalogue or of the piece's partition held.
type Snapshot interface {
	Begin(p Piece)
	Sink
	IsLarge() bool
	End() error
}

// Snapshot writes the store's contents for a Replay. Equal contents give equal effects.
func (s *Store) Snapshot(to Snapshot) error {
	o := &snapshotWriter{Snapshot: to, store: s}
	o.catalogue()
	for _, p := range s.allPartitions() {
		for o.partition(p) {
		}
	}
	return o.err
}

func (s *Store) allPartitions() (all []*partition) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, id := range slices.Sorted(maps.Keys(s.partitions)) {
		all = append(all, s.partitions[id]...)
	}
	return all
}

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
	Snapshot
	store *Store
	scratch
	err error // after an error, nothing more is written
}

func (o *snapshotWriter) do(e Effect) {
	o.effect = e
	o.Do(&o.effect)
}

func (o *snapshotWriter) isFull(n int) bool { return n >= pieceSize || o.IsLarge() }

func (o *snapshotWriter) catalogue() {
	s := o.store
	s.mu.RLock()
	defer s.mu.RUnlock()
	o.Begin(Piece{Kind: PieceCatalogue, Now: s.millis()})
	for _, name := range slices.Sorted(maps.Keys(s.namespaces)) {
		o.do(Effect{Kind: EffectNamespace, Object: new(s.namespaces[name])})
	}
	for _, id := range s.sealed.order {
		o.do(Effect{Kind: EffectSeal, Text: id.key, At: id.at})
	}
	for _, kind := range []core.Kind{core.Queue, core.Topic, core.Subscription, core.Schedule} {
		for _, namespace := range slices.Sorted(maps.Keys(s.spaces)) {
			space := s.spaces[namespace]
			for _, folded := range slices.Sorted(maps.Keys(space.entities)) {
				e := space.entities[folded]
				if e.Kind != kind {
					continue
				}
				version := int64(0)
				if t := cmp.Or(s.topics[e.ID], s.topics[e.TopicID]); t != nil {
					version = t.version
				}
				o.do(Effect{Kind: EffectEntity, Number: version, Object: &e})
				if e.Kind == core.Subscription {
					o.do(Effect{Kind: EffectRules, Text: e.ID, Object: new(s.rules[e.ID].page(0, allRules))})
				}
			}
		}
	}
	o.err = o.End()
}

// partition writes p to the snapshot. again is true if p was cleared meanwhile.
func (o *snapshotWriter) partition(p *partition) (again bool) {
	p.mu.Lock()
	cleared, homes := p.cleared, p.homes()
	p.mu.Unlock()
	for _, home := range homes {
		keys := o.numbers(home)
		o.ids(home, &home.seen, EffectSeen)
		o.ids(home, &home.moves, EffectMoved)
		for sub := range core.SubQueues {
			o.sessions(home, sub, keys[sub])
			o.messages(home, sub)
		}
		o.events(home)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cleared != cleared && o.err == nil
}

// pieces writes pieces while effects returns true. It locks the mutex anew for each piece.
func (o *snapshotWriter) pieces(home *entityState, piece Piece, effects func(*Piece) (more bool)) {
	for more := true; more && o.err == nil; {
		home.partition.mu.Lock()
		o.Begin(piece)
		more = effects(&piece)
		home.partition.mu.Unlock()
		o.err = o.End()
	}
}

func (o *snapshotWriter) numbers(home *entityState) (keys [core.SubQueues][]core.SessionKey) {
	o.pieces(home, Piece{Kind: PieceHome, Of: home.ref}, func(*Piece) bool {
		for sub, q := range home.queues {
			if q == nil {
				continue
			}
			keys[sub] = slices.Collect(maps.Keys(q.sessions))
			if q.last > 0 {
				o.do(Effect{Kind: EffectLast, Of: q.ref, Number: q.last})
			}
		}
		return false
	})
	return keys
}

func (o *snapshotWriter) ids(home *entityState, s *seenIDs, k EffectKind) {
	after := int64(math.MinInt64)
	o.pieces(home, Piece{Kind: PieceIDs, Of: home.ref}, func(*Piece) bool {
		n := 0
		for id := range s.all(after) {
			if id.at != after && n > 0 && o.isFull(n) {
				return true
			}
			n, after = n+1, id.at
			o.do(Effect{Kind: k, Of: home.ref, Text: id.key, At: id.at})
		}
		return false
	})
}

func (o *snapshotWriter) sessions(home *entityState, sub core.SubQueue, keys []core.SessionKey) {
	if slices.Sort(keys); len(keys) == 0 {
		return
	}
	o.pieces(home, Piece{Kind: PieceSessions, Of: home.ref}, func(*Piece) bool {
		q := home.queue(sub)
		for n := 0; len(keys) > 0 && !o.isFull(n); n++ {
			if s := q.sessions[keys[0]]; s != nil && (s.isHeld() || s.State != nil) {
				o.Do(o.sessionOf(q, s))
			}
			keys = keys[1:]
		}
		return len(keys) > 0
	})
}

func (o *snapshotWriter) messages(home *entityState, sub core.SubQueue) {
	of := home.ref
	of.Sub = sub
	o.pieces(home, Piece{Kind: PieceMessages, Of: of}, func(piece *Piece) bool {
		q, n := home.queues[sub], 0
		if q == nil {
			return false
		}
		for e := range q.log.from(piece.From) {
			if o.isFull(n) {
				piece.From = e.n
				return true
			}
			o.Do(o.putOf(q, e))
			n++
		}
		return false
	})
}

func (o *snapshotWriter) events(home *entityState) {
	next, h := int64(0), &home.history
	o.pieces(home, Piece{Kind: PieceEvents, Of: home.ref}, func(*Piece) bool {
		if next < h.trimmed { // also if events that no piece contains were dropped since the last piece
			o.do(Effect{Kind: EffectTrim, Of: home.ref, Number: h.trimmed})
		}
		next = max(next, h.trimmed)
		for n := 0; !o.isFull(n) && next < h.trimmed+int64(len(h.events)); n++ {
			i := next - h.trimmed
			o.do(Effect{Kind: EffectEvent, Of: home.ref, Number: next, At: h.written[i], Object: &h.events[i]})
			next++
		}
		return next < h.trimmed+int64(len(h.events))
	})
}

// pieces are those of a partition, by the ID of the subscription.
type pieces map[string]*homePieces

type homePieces struct {
	gone  bool // the entity was deleted before its first piece was written
	at    Position
	spans [core.SubQueues][]span
}

type span struct {
	from int64
	at   Position
}

// isOld reports whether the pieces contain the effect of a frame at that position on message n or,
// for n = 0, on what the entity's first piece describes.
func (p pieces) isOld(q *queue, n int64, at Position) bool {
	if q == nil {
		return false
	}
	h := p[q.ref.Subscription]
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

// Piece begins a piece of a snapshot. It returns false if the entity was created after the
// catalogue was written: then the frames after the snapshot contain the whole entity.
func (r *Replay) Piece(at Position, piece *Piece) bool {
	r.Frame(at, nil)
	r.piece = true
	if piece.Kind == PieceCatalogue {
		r.Happened(piece.Now)
		r.store.catalogued = at
		return true
	}
	of := piece.Of
	of.Sub = core.Main
	r.in(of)
	switch {
	case r.home == nil:
		return false
	case r.p.pieces == nil:
		r.err = errors.New("the snapshot is invalid: a partition comes before the list of entities")
		return false
	}
	home := r.p.pieces[of.Subscription]
	switch piece.Kind {
	case PieceHome:
		r.home.reset()
		*home = homePieces{at: at}
		r.p = nil // the cached queue is no longer the entity's
	case PieceMessages:
		sub := piece.Of.Sub
		if sub >= core.SubQueues {
			r.err = errors.New("the snapshot has a sub-queue that this version does not know: start the newer version that wrote it")
			return false
		}
		home.spans[sub] = append(home.spans[sub], span{piece.From, at})
	}
	return true
}

// expectPieces marks an entity of the loaded catalogue as deleted before its first piece was
// written. The replay of that piece removes the mark.
func (r *Replay) expectPieces(e *core.Entity) {
	for _, p := range r.store.partitions[cmp.Or(e.TopicID, e.ID)] {
		if p.pieces == nil {
			p.pieces = make(pieces)
		}
		p.pieces[e.Ref(p.index, core.Main).Subscription] = &homePieces{gone: true}
	}
}

// reset discards what earlier pieces have loaded, because the partition was cleared after them.
func (b *entityState) reset() {
	b.partition.bytes -= b.bytes()
	b.evict()
	b.queues = [core.SubQueues]*queue{}
}
