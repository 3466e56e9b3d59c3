package https

import (
	"sync"

	"github.com/crosstown-mq/crosstown/core"
)

// streams counts the streams that are open.
type streams struct {
	mu          sync.Mutex
	all         int
	byNamespace map[string]int // by ID; none is 0
}

// open counts one more of a namespace, where that is not refused. A namespace has no
// more than there are places left: most of all alone has half of them, and however
// many namespaces there are, the next one finds a place.
func (s *streams) open(id core.Identity, most int) error {
	namespace := id.NamespaceID()
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.byNamespace[namespace]
	switch {
	case s.all >= most:
		return core.Refuse(core.Busy, "The gateway has %d streams open, which is its limit. Try again later.", s.all)
	case own >= most-s.all:
		return core.Refuse(core.Busy, "The namespace '%s' has %d streams open at this gateway, which are as many as there are places left for others. Close some, or try again later.", id.Namespace(), own)
	}
	if s.byNamespace == nil {
		s.byNamespace = make(map[string]int)
	}
	s.all++
	s.byNamespace[namespace]++
	return nil
}

// close is the reverse of open.
func (s *streams) close(id core.Identity) {
	namespace := id.NamespaceID()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.byNamespace[namespace]--; s.byNamespace[namespace] == 0 {
		delete(s.byNamespace, namespace)
	}
}

// Streams is how many streams of server-sent events are open.
func (b *Bridge) Streams() int {
	b.streams.mu.Lock()
	defer b.streams.mu.Unlock()
	return b.streams.all
}
