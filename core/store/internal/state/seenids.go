package state

import (
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/core"
)

// seenIDs has message ids, or keys of moves.
type seenIDs struct {
	known  map[string]int64 // when each key was last seen
	order  []seenID         // keys with times, by time; a pair is outdated if its key was forgotten or seen again
	most   int              // the largest length of known since it was allocated
	weight int64
}

type seenID struct {
	key string
	at  int64
}

const (
	// tidy cleans order only if its outdated pairs exceed the known keys by more than tolerated.
	tolerated = 64
	// forgetMost limits the keys forgotten in one step, so that other calls need not wait long.
	forgetMost = 10_000
)

func weightOfKey(key string) int64 { return seenIDWeight + int64(len(key)) }

// isDuplicate remembers m's id if it is new. If not, it notes an event, unless spared is true.
func (t *txn) isDuplicate(m *core.Message, spared bool) bool {
	key := t.DuplicateKey(m)
	if key == "" {
		return false
	}
	if !t.home.seen.knows(key, t.now-t.DuplicateWindow.Milliseconds()) {
		t.home.remember(&t.home.seen, key, t.now)
		return false
	}
	if !spared {
		t.noteArrival(core.EventDuplicate, t.queue, m, 0, 0, 0)
	}
	return true
}

// remember adds a key to b.seen or b.moves.
func (b *entityState) remember(s *seenIDs, key string, at int64) {
	kind := EffectSeen
	if s == &b.moves {
		kind = EffectMoved
	}
	b.partition.effects.do(Effect{Kind: kind, Of: b.ref, Text: key, At: at})
	b.weigh(s, s.remember(key, at))
}

// forgetSome is forget, but drops at most as many keys as one call may drop.
func (b *entityState) forgetSome(s *seenIDs, until int64) {
	if len(s.order) > forgetMost {
		until = min(until, s.order[forgetMost].at)
	}
	b.forget(s, until)
}

// forget drops the keys of b.seen or b.moves that were last seen at until or before.
func (b *entityState) forget(s *seenIDs, until int64) {
	if len(s.order) == 0 || s.order[0].at > until {
		return
	}
	kind := EffectSeenUntil
	if s == &b.moves {
		kind = EffectMovedUntil
	}
	b.partition.effects.do(Effect{Kind: kind, Of: b.ref, At: until})
	b.weigh(s, -s.forget(until))
}

// weigh adds to the bytes of s. The bytes of message ids also count for the main queue.
func (b *entityState) weigh(s *seenIDs, weight int64) {
	b.partition.remembered.ids.Add(weight)
	if s == &b.seen {
		b.queue(core.Main).grow(int(weight))
	}
}

func (s *seenIDs) behind(at int64) []seenID {
	return s.order[sort.Search(len(s.order), func(i int) bool { return s.order[i].at > at }):]
}

// all yields the known keys that were seen after the time at, by time. If a key was forgotten and
// seen again at the same time, order lists it twice.
func (s *seenIDs) all(at int64) iter.Seq[seenID] {
	return func(yield func(seenID) bool) {
		given := make(map[string]bool) // keys that were already yielded for the time at
		for _, id := range s.behind(at) {
			if id.at != at {
				at = id.at
				clear(given)
			}
			if s.known[id.key] == id.at && !given[id.key] {
				given[id.key] = true
				if !yield(id) {
					return
				}
			}
		}
	}
}

func (s *seenIDs) forget(until int64) (weight int64) {
	gone := 0
	for gone < len(s.order) && s.order[gone].at <= until {
		x := s.order[gone]
		gone++
		if s.known[x.key] == x.at {
			weight += s.drop(x.key)
		}
	}
	if gone == 0 {
		return 0
	}
	clear(s.order[:gone])
	s.order = s.order[gone:]
	if len(s.known) < s.most/4 { // frees the memory of a peak: a map never shrinks
		known := make(map[string]int64, len(s.known))
		maps.Copy(known, s.known)
		s.known, s.order, s.most = known, slices.Clone(s.order), len(known)
	}
	return weight
}

func (s *seenIDs) drop(key string) (weight int64) {
	if _, known := s.known[key]; known {
		weight = weightOfKey(key)
		delete(s.known, key)
		s.weight -= weight
	}
	return weight
}

func (s *seenIDs) tidy() {
	if len(s.order) > 2*len(s.known)+tolerated {
		s.order = slices.DeleteFunc(s.order, func(x seenID) bool { return s.known[x.key] != x.at })
	}
}

func (s *seenIDs) knows(key string, since int64) bool {
	at, known := s.known[key]
	return known && at > since
}

func (s *seenIDs) remember(key string, at int64) (weight int64) {
	old, known := s.known[key]
	if known && old >= at {
		return 0
	}
	if s.known == nil {
		s.known = make(map[string]int64)
	}
	key = strings.Clone(key) // a substring would keep the whole message in memory
	s.known[key] = at
	if n := len(s.order); n == 0 || s.order[n-1].at <= at {
		s.order = append(s.order, seenID{key, at})
	} else { // only in a replay, if the snapshot has later keys
		s.order = slices.Insert(s.order, n-len(s.behind(at)), seenID{key, at})
	}
	s.most = max(s.most, len(s.known))
	if known {
		return 0
	}
	weight = weightOfKey(key)
	s.weight += weight
	return weight
}

// remembered counts the bytes that a Store uses for ids and keys, and for events in histories.
// Options.Remember limits each of the two sums.
type remembered struct {
	most   int64 // 0: no limit
	ids    atomic.Int64
	events atomic.Int64

	damaged atomic.Int64
}

// refusesID reports whether an entity that uses own bytes for ids may not add another id. Up to
// three quarters of the limit, every entity may add ids. Above, an entity may add ids only if it
// uses fewer bytes than are free, so that one sender's ids do not stop others. Keys of moves may
// exceed the limit by a quarter, so that forwarding continues.
func (r *remembered) refusesID(own int64, ofMove bool) bool {
	if r.most <= 0 {
		return false
	}
	left := r.most - r.ids.Load()
	if ofMove {
		return left+r.most/4 <= 0
	}
	return left <= 0 || left < r.most/4 && own >= left
}

// remembersTooMuch returns Busy if no memory is left for m's id or Transit.Key. Dropping older ids
// early instead could let duplicates through.
func (t *txn) remembersTooMuch(m *core.Message) error {
	if !t.remembered.refusesID(t.home.seen.weight+t.home.moves.weight, transit(m).Key != "") || !t.isNew(m) {
		return nil
	}
	return core.CertainlyNotDone(core.Refuse(core.Busy,
		"Duplicate detection has no memory left for message ids (%d bytes for all entities): send later, increase the gateway's memory limit, or shorten the duplicate detection window.",
		t.remembered.most))
}

func (t *txn) isNew(m *core.Message) bool {
	if key := transit(m).Key; key != "" {
		return !t.isKnown(m)
	}
	key := t.DuplicateKey(m)
	return key != "" && !t.home.seen.knows(key, t.now-t.DuplicateWindow.Milliseconds())
}

func (b *entityState) forgetAll() {
	r := b.partition.remembered
	r.ids.Add(-b.seen.weight - b.moves.weight)
	r.events.Add(-b.history.weight)
	b.seen, b.moves, b.history = seenIDs{}, seenIDs{}, history{}
}
