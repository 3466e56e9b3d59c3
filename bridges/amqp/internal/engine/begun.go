package engine

import (
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
)

const (
	// LargeFrame is the size of a frame, in bytes, from which a transfer need not come whole: what is left of it can be
	// read to where it stays. Smaller ones are cheaper to take together.
	LargeFrame = 8 << 10
	// LeastBegun is the number of its bytes that must have arrived, so that the size of the message can be read.
	LeastBegun = 1 << 10
)

// begun is a transfer frame whose performative has arrived and whose payload has not, or only in part.
type begun struct {
	left int   // bytes of the payload that are to come
	link *Link // whose message they belong to; nil: they are thrown away
	last bool  // the frame ends that message
}

// begin takes the beginning of a frame, where that is worth it, and returns how many bytes it has taken.
func (c *Conn) begin(b []byte) int {
	if c.state != stateOpened || len(b) < LeastBegun {
		return 0
	}
	f, n := wire.CutTransfer(b)
	if n < LargeFrame {
		return 0
	}
	c.begun = begun{left: n - len(b)}
	if c.frame(f, c.begun.left); c.stalled {
		c.begun = begun{}
		return 0
	}
	return len(b)
}

// goOn takes the bytes that have arrived of the begun frame, and returns their number.
func (c *Conn) goOn(b []byte) int {
	n := min(len(b), c.begun.left)
	if n > 0 {
		copy(c.Into(), b)
		c.came(n)
	}
	return n
}

// Into returns where the next bytes of the peer go if they are a message's, nil if they are for Receive. A caller that reads
// them there calls Filled; nothing may be received meanwhile.
func (c *Conn) Into() []byte {
	p := c.filling()
	if p == nil || p.discard {
		return nil
	}
	at := len(p.Payload)
	return p.Payload[at : at+c.begun.left]
}

// Filled says that n bytes of the peer are where Into said.
func (c *Conn) Filled(n int, now time.Time) {
	c.heard = now
	c.came(n)
}

// filling returns the message that waits for the rest of a frame, nil if it is not awaited any more.
func (c *Conn) filling() *partial {
	if l := c.begun.link; l != nil && l.state == linkOpen && l.partial.active {
		return &l.partial
	}
	return nil
}

// came takes n bytes of the payload, which are where they belong.
func (c *Conn) came(n int) {
	c.begun.left -= n
	p, ended := c.filling(), c.begun
	if c.begun.left == 0 {
		c.begun = begun{}
	}
	if p == nil {
		return
	}
	p.pace.Went(n, c.heard)
	if !p.discard {
		p.Payload = p.Payload[:len(p.Payload)+n]
	}
	if ended.left == 0 && ended.last {
		ended.link.complete()
	}
}
