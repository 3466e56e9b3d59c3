package fair

import (
	"cmp"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	FeedPlaces = 1 // units of a Pool for a feed over WebSocket
	// EventStreamPlaces is for a stream of server-sent events, which has a goroutine and may query
	// the store twice a second.
	EventStreamPlaces = 25
)

// Pools limit what the clients of all bridges use. A bridge makes its own pool instead of a nil one.
type Pools struct {
	Budget   *Pool // memory of messages and requests in progress
	Standing *Pool // memory that open connections, sessions, links and feeds keep
	Streams  *Pool // feeds and event streams, in units of which an event stream takes several
}

// Default replaces nil pools by new ones.
func (p *Pools) Default() {
	p.Budget = cmp.Or(p.Budget, New(0, nil, nil))
	p.Standing = cmp.Or(p.Standing, New(0, nil, nil))
	p.Streams = cmp.Or(p.Streams, NewStreams(0, nil))
}

// NewStreams limits feeds and event streams; a limit of 0 means 50000.
func NewStreams(limit int, gauge *Gauge) *Pool {
	p := NewPlaces(cmp.Or(limit, 50_000), "feeds and event streams", gauge)
	p.shuts = Full
	return p
}

// NewPlaces returns a pool of limit units. what names, in the plural, the things that take them.
func NewPlaces(limit int, what string, gauge *Gauge) *Pool {
	p := New(int64(limit), nil, gauge)
	p.places = what
	return p.Named(what, Full+1)
}

func (p *Pool) Open(w Who, n int64) (closed func(), err error) {
	s := p.Share(nil)
	s.Join(w)
	if s.Take(n) {
		return s.Close, nil
	}
	defer s.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteRefusal()
	switch {
	case p.refuses(s.policy, s.namespace, n):
		return nil, p.gauge.Refusal()
	case p.places == "":
		return nil, core.Refuse(core.Busy, "All of the gateway's %s is in use. Try again later.", p.name)
	case n > p.limit-p.held:
		return nil, core.Refuse(core.Busy, "This gateway has reached its limit of %d %s. Try again later.", p.limit, p.places)
	}
	return nil, core.Refuse(core.Busy, "The policy '%s' or the policy's namespace has used its share of this gateway's %d %s. Close some, or try again later.", w.Policy, p.limit, p.places)
}
