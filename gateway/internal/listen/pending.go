package listen

import (
	"container/list"
	"net"
	"sync"
)

// pending holds the connections that are not decided yet. Where it is full, the
// one that has been silent for longest makes room: peers that say nothing must
// not keep out those that do. One in its TLS handshake keeps its place, so that
// the work done for it is not in vain when many clients come back at once.
type pending struct {
	most int

	mu     sync.Mutex
	silent list.List // of *place, the oldest first
	spoken int       // places of those that have spoken
}

// place is a connection's in pending.
type place struct {
	conn   net.Conn
	silent *list.Element // nil once it has spoken
	left   bool
}

// enter gives conn a place, and the connection that had to make room for it, if
// any, which is to be closed. The place is nil where nobody can.
func (p *pending) enter(conn net.Conn) (entered *place, out net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent.Len()+p.spoken >= p.most {
		oldest := p.silent.Front()
		if oldest == nil {
			return nil, nil
		}
		given := p.silent.Remove(oldest).(*place)
		given.left = true
		out = given.conn
	}
	entered = &place{conn: conn}
	entered.silent = p.silent.PushBack(entered)
	return entered, out
}

// spoke says that the connection's first bytes are there, after which it may be
// in its handshake for a while. It is false if the place was given to another.
func (p *pending) spoke(pl *place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pl.left {
		return false
	}
	p.silent.Remove(pl.silent)
	pl.silent = nil
	p.spoken++
	return true
}

// leave gives the place back.
func (p *pending) leave(pl *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case pl.left:
	case pl.silent != nil:
		p.silent.Remove(pl.silent)
	default:
		p.spoken--
	}
	pl.left = true
}
