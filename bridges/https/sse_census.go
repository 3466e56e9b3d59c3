package https

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
)

// maxProduct bounds what is kept of what a client calls itself, in bytes.
const maxProduct = 200

var _ bridges.Census = (*Bridge)(nil)

// openStreams are the streams that are open.
type openStreams struct {
	mu   sync.Mutex
	byID map[string]openStream
}

type openStream struct {
	bridges.Connection
	events *events
}

// describeStream is what others may know of a stream.
func describeStream(r *http.Request, id core.Identity, entity string, mode core.ReceiveMode) bridges.Connection {
	return bridges.Connection{
		ID: refusals.NewID(), Protocol: "event stream", Peer: r.RemoteAddr, Since: time.Now(), Namespace: id.Namespace(),
		Policies: id.Policies(), Product: r.UserAgent()[:min(len(r.UserAgent()), maxProduct)],
		Links: []bridges.Link{{Entity: entity, Receives: true, Deletes: mode == core.ReceiveAndDelete}},
	}
}

// add enters a stream until remove is called.
func (s *openStreams) add(about bridges.Connection, e *events) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]openStream{}
	}
	s.byID[about.ID] = openStream{about, e}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.byID, about.ID)
	}
}

// Streams is how many streams of server-sent events are open.
func (b *Bridge) Streams() int {
	b.open.mu.Lock()
	defer b.open.mu.Unlock()
	return len(b.open.byID)
}

// Connections implements bridges.Census: it lists the streams, the oldest first.
func (b *Bridge) Connections(context.Context) []bridges.Connection {
	b.open.mu.Lock()
	var all []bridges.Connection
	for _, s := range b.open.byID {
		all = append(all, s.Connection)
	}
	b.open.mu.Unlock()
	slices.SortFunc(all, func(x, y bridges.Connection) int {
		return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.ID, y.ID))
	})
	return all
}

// CloseConnection implements bridges.Census.
func (b *Bridge) CloseConnection(id string) bool {
	b.open.mu.Lock()
	defer b.open.mu.Unlock()
	s, ok := b.open.byID[id]
	if ok {
		s.events.expel(core.Refuse(core.Busy, "%s", bridges.ForcedText))
	}
	return ok
}
