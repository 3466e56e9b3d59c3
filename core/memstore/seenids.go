package memstore

import (
	"maps"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

// seenIDs remember which message ids, or keys of moves, were seen lately.
type seenIDs struct {
	known map[string]int64 // when each was seen
	order []seenID         // of what is known, oldest first; some may be known no more
	most  int              // how many were known at once since known was made
}

type seenID struct {
	key string
	at  int64
}

// tolerated is how many keys more than are known the order may have.
const tolerated = 64

// isDuplicate reports whether a message of m's id was accepted within the
// window; if not, m is the first from now on. The history has no word of what is spared.
func (t *txn) isDuplicate(m *core.Message, spared bool) bool {
	window := t.DuplicateWindow.Milliseconds()
	if window <= 0 || m.MessageID.IsZero() {
		return false
	}
	key := m.MessageID.String()
	if t.Partitioned && m.PartitionKey != "" {
		key += "\x00" + m.PartitionKey
	}
	if t.home.seen.first(key, t.now) {
		if x := t.effects; x != nil {
			x.text(t.home, effectSeen, key, t.now)
		}
		t.home.queue(core.Main).grow(seenIDWeight + len(key))
		return false
	}
	if !spared {
		t.noteArrival(core.EventDuplicate, t.queue, m, 0, 0, 0)
	}
	return true
}

// forgetIDs drops the message ids that were seen at the given instant or before.
func (b *entityState) forgetIDs(until int64) {
	if !b.seen.isDue(until) {
		return
	}
	if x := b.partition.effects; x != nil {
		x.until(b, effectSeenUntil, until)
	}
	b.queue(core.Main).grow(-b.seen.forget(until))
}

// isDue reports whether forget would drop something.
func (s *seenIDs) isDue(until int64) bool { return len(s.order) > 0 && s.order[0].at <= until }

// forget drops what was seen at the given instant or before, and returns its weight.
func (s *seenIDs) forget(until int64) (weight int) {
	gone := 0
	for gone < len(s.order) && s.order[gone].at <= until {
		x := s.order[gone]
		gone++
		if s.known[x.key] == x.at {
			weight += seenIDWeight + len(x.key)
			delete(s.known, x.key)
		}
	}
	if gone == 0 {
		return 0
	}
	clear(s.order[:gone])
	s.order = s.order[gone:]
	if len(s.known) < s.most/4 { // give back the memory of a crowd
		known := make(map[string]int64, len(s.known))
		maps.Copy(known, s.known)
		s.known, s.order, s.most = known, slices.Clone(s.order), len(known)
	}
	return weight
}

// tidy drops from the order what is known no more, once that is the most of it.
func (s *seenIDs) tidy() {
	if len(s.order) > 2*len(s.known)+tolerated {
		s.order = slices.DeleteFunc(s.order, func(x seenID) bool { return s.known[x.key] != x.at })
	}
}

// first remembers key, and reports whether it was unknown.
func (s *seenIDs) first(key string, now int64) bool {
	if _, known := s.known[key]; known {
		return false
	}
	if s.known == nil {
		s.known = make(map[string]int64)
	}
	key = strings.Clone(key) // it may be a part of the message
	s.known[key] = now
	s.order = append(s.order, seenID{key, now})
	s.most = max(s.most, len(s.known))
	return true
}
