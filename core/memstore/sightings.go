package memstore

import "github.com/crosstown-mq/crosstown/core"

// sightings remember which message ids were accepted lately: duplicate detection.
type sightings struct {
	known map[string]bool
	order []sighting // of what is known, oldest first
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
		delete(s.known, s.order[0].key)
		s.order = s.order[1:]
	}
}

// first remembers key, and reports whether it was unknown.
func (s *sightings) first(key string, now int64) bool {
	if s.known[key] {
		return false
	}
	if s.known == nil {
		s.known = make(map[string]bool)
	}
	s.known[key] = true
	s.order = append(s.order, sighting{key, now})
	return true
}
