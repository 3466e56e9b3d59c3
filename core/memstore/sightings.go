package memstore

import (
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

// sightings remember which message ids, or keys of moves, were seen lately.
type sightings struct {
	known map[string]int64 // when each was seen
	order []sighting       // of what is known, oldest first; some may be known no more
}

type sighting struct {
	key string
	at  int64
}

// isDuplicate reports whether a message of m's id was accepted within the
// window; if not, m is the first from now on. The history has no word of what is spared.
func (t *turn) isDuplicate(m *core.Message, spared bool) bool {
	window := t.DuplicateWindow.Milliseconds()
	if window <= 0 || m.MessageID.IsZero() {
		return false
	}
	t.home.seen.forget(t.now - window)
	key := m.MessageID.String()
	if t.Partitioned && m.PartitionKey != "" {
		key += "\x00" + m.PartitionKey
	}
	if t.home.seen.first(key, t.now) {
		return false
	}
	if !spared {
		t.noteArrival(core.EventDuplicate, t.queue, m, 0, 0, 0)
	}
	return true
}

// forget drops what was seen at the given instant or before.
func (s *sightings) forget(until int64) {
	for len(s.order) > 0 && s.order[0].at <= until {
		if gone := s.order[0]; s.known[gone.key] == gone.at {
			delete(s.known, gone.key)
		}
		s.order = s.order[1:]
	}
}

// tidy drops from the order what is known no more, once that is the most of it.
func (s *sightings) tidy() {
	if len(s.order) > 2*len(s.known)+tolerated {
		s.order = slices.DeleteFunc(s.order, func(x sighting) bool { return s.known[x.key] != x.at })
	}
}

// first remembers key, and reports whether it was unknown.
func (s *sightings) first(key string, now int64) bool {
	if _, known := s.known[key]; known {
		return false
	}
	if s.known == nil {
		s.known = make(map[string]int64)
	}
	s.known[key] = now
	s.order = append(s.order, sighting{key, now})
	return true
}
