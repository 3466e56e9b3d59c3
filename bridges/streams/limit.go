// Package streams bounds the feeds and event streams that clients keep open at a gateway. The
// bridges share one Limit.
package streams

import (
	"sync"

	"github.com/crosstown-mq/crosstown/core"
)

// What a client keeps open takes places.
const (
	// FeedPlaces are those of a feed over WebSocket: the broker wakes it.
	FeedPlaces = 1
	// EventStreamPlaces are those of a stream of server-sent events. It has a goroutine, and
	// may look at the store twice in each second.
	EventStreamPlaces = 25
	// DefaultPlaces are those of a Limit that is not told how many.
	DefaultPlaces = 50_000
)

// Limit counts what is open. It is safe for concurrent use.
type Limit struct {
	places int

	mu          sync.Mutex
	taken       int
	byNamespace map[string]int // places by ID; none is 0
}

// New returns a limit of so many places, or of DefaultPlaces if that is not positive.
func New(places int) *Limit {
	if places <= 0 {
		places = DefaultPlaces
	}
	return &Limit{places: places, byNamespace: map[string]int{}}
}

// Open takes places for what a client opens, until close is called once, or refuses. A
// namespace has no more places than it leaves free: alone half of them, and however many
// namespaces there are, the next one finds a place.
func (s *Limit) Open(id core.Identity, places int) (close func(), err error) {
	namespace := id.NamespaceID()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch free, own := s.places-s.taken, s.byNamespace[namespace]; {
	case places > free:
		return nil, core.Refuse(core.Busy, "So many feeds and event streams are open that the gateway takes no more of them. Try again later.")
	case own+places > free:
		return nil, core.Refuse(core.Busy, "The namespace '%s' has so many feeds and event streams open at this gateway that it leaves no more for others. Close some, or try again later.", id.Namespace())
	}
	s.taken += places
	s.byNamespace[namespace] += places
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken -= places
		if s.byNamespace[namespace] -= places; s.byNamespace[namespace] == 0 {
			delete(s.byNamespace, namespace)
		}
	}, nil
}
