package amqp

import (
	"sync"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// maxSpliced is how many bytes a message may have that a peer sends through a splice: the largest, and
// its properties.
const maxSpliced = core.MaxMessageSizeKB<<10 + 1<<20

// grants are what the client behind a splice has allowed its peer to send. The client itself takes
// whatever comes.
type grants struct {
	mu       sync.Mutex
	sessions map[uint16]*grantedSession // by the client's channel
	peer     map[uint16]*grantedSession // the same, by the peer's
}

type grantedSession struct {
	links  map[string]*grantedLink // on which the client receives, by name
	client map[uint32]*grantedLink // the same, by the client's handle
	peer   map[uint32]*grantedLink // the same, by the peer's
}

type grantedLink struct {
	count uint32 // deliveries that have begun
	limit uint32 // how many may
	size  int    // bytes of the delivery under way
	open  bool   // one is under way
}

// note reads a frame of the client.
func (g *grants) note(frame []byte) {
	if string(frame[:4]) == "AMQP" {
		return
	}
	f, n, err := wire.CutFrame(frame, uint32(len(frame)))
	if err != nil || n == 0 || f.Type != wire.FrameAMQP || len(f.Body) < 3 {
		return
	}
	switch wire.Descriptor(f.Body[2]) {
	case wire.DescBegin, wire.DescAttach, wire.DescFlow, wire.DescDetach, wire.DescEnd:
	default:
		return
	}
	p, _, err := wire.DecodePerformative(f.Body, value.Limits{})
	if err != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.sessions[f.Channel]
	switch p := p.(type) {
	case *wire.Begin:
		if g.sessions == nil {
			g.sessions, g.peer = map[uint16]*grantedSession{}, map[uint16]*grantedSession{}
		}
		g.sessions[f.Channel] = &grantedSession{links: map[string]*grantedLink{}, client: map[uint32]*grantedLink{}, peer: map[uint32]*grantedLink{}}
	case *wire.Attach:
		if s != nil && p.Role == wire.RoleReceiver {
			l := &grantedLink{}
			s.links[p.Name], s.client[p.Handle] = l, l
		}
	case *wire.Flow:
		if s == nil || !p.Handle.Set || !p.LinkCredit.Set {
			return
		}
		if l := s.client[p.Handle.V]; l != nil {
			// Credit that is taken back may have been used already.
			if limit := p.DeliveryCount.Or(0) + p.LinkCredit.V; int32(limit-l.limit) > 0 {
				l.limit = limit
			}
		}
	case *wire.Detach:
		if s != nil {
			delete(s.client, p.Handle)
		}
	case *wire.End:
		delete(g.sessions, f.Channel)
	}
}

// admit returns an error for a frame of the peer that begins a delivery without credit, or goes on with one
// that is too large.
func (g *grants) admit(channel uint16, p wire.Performative, size int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch p := p.(type) {
	case *wire.Begin:
		if s := g.sessions[p.RemoteChannel.V]; s != nil && p.RemoteChannel.Set {
			g.peer[channel] = s
		}
	case *wire.End:
		delete(g.peer, channel)
	case *wire.Attach:
		if s := g.peer[channel]; s != nil && p.Role == wire.RoleSender {
			if l := s.links[p.Name]; l != nil {
				l.count = p.InitialDeliveryCount.Or(0)
				l.limit += l.count
				s.peer[p.Handle] = l
			}
		}
	case *wire.Detach:
		if s := g.peer[channel]; s != nil {
			delete(s.peer, p.Handle)
		}
	case *wire.Transfer:
		s := g.peer[channel]
		if s == nil || s.peer[p.Handle] == nil {
			return &wire.Error{Condition: wire.CondUnattachedHandle, Description: "A transfer on a link that is not attached."}
		}
		l := s.peer[p.Handle]
		if !l.open {
			if int32(l.limit-l.count) <= 0 { // serial numbers, AMQP 1.0 §2.6.7
				return &wire.Error{Condition: wire.CondTransferLimitExceeded, Description: "A transfer without credit."}
			}
			l.count++
			l.size = 0
		}
		if l.size += size; l.size > maxSpliced {
			return &wire.Error{Condition: wire.CondMessageSizeExceeded, Description: "A message is larger than any may be."}
		}
		l.open = p.More && !p.Aborted
	}
	return nil
}
