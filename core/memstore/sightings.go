package memstore

import "github.com/crosstown-mq/crosstown/core"

// sightings remember when message ids were first accepted: duplicate detection.
type sightings struct {
	since map[string]int64
	order []sighting
}

type sighting struct {
	key string
	at  int64
}

// isDuplicate reports whether a message of m's id was accepted within the
// window; if not, m is the first from now on.
func (t *turn) isDuplicate(m *core.Message) bool {
	window := t.DuplicateWindow.Milliseconds()
	if window <= 0 || m.MessageID.IsZero() {
		return false
	}
	t.seen.forget(t.now - window)
	key := m.MessageID.String()
	if t.Partitioned && m.PartitionKey != "" {
		key += "\x00" + m.PartitionKey
	}
	return !t.seen.first(key, t.now)
}

// forget drops what was seen at the given instant or before.
func (s *sightings) forget(until int64) {
	for len(s.order) > 0 && s.order[0].at <= until {
		delete(s.since, s.order[0].key)
		s.order = s.order[1:]
	}
}

// first remembers key, and reports whether it was unknown.
func (s *sightings) first(key string, now int64) bool {
	if _, known := s.since[key]; known {
		return false
	}
	if s.since == nil {
		s.since = make(map[string]int64)
	}
	s.since[key] = now
	s.order = append(s.order, sighting{key, now})
	return true
}
