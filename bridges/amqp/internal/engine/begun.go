package engine

import (
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
)

const (
	// LargeFrame is the size in bytes from which Receive takes a transfer frame in parts, so that
	// the rest is read into its final memory. Smaller frames are cheaper to take whole.
	LargeFrame = 8 << 10
	// LeastBegun is how many bytes of such a frame must have arrived before Receive takes a part.
	LeastBegun = 1 << 10
)

// begun is a transfer frame whose performative has arrived, but not all of its payload.
type begun struct {
	left int   // bytes of the payload that have not arrived
	link *Link // the link whose message the bytes belong to; nil if they are discarded
	last bool  // the frame ends that message
}

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

func (c *Conn) goOn(b []byte) int {
	n := min(len(b), c.begun.left)
	if n > 0 {
		copy(c.Into(), b)
		c.came(n)
	}
	return n
}

// Into returns the memory for the peer's next bytes if they belong to a message, or nil if they are
// for Receive. A caller that reads into this memory must then call Filled before it calls Receive.
func (c *Conn) Into() []byte {
	p := c.filling()
	if p == nil || p.discard {
		return nil
	}
	at := len(p.Payload)
	return p.Payload[at : at+c.begun.left]
}

// Filled reports that n bytes of the peer were read into the memory that Into returned.
func (c *Conn) Filled(n int, now time.Time) {
	c.heard = now
	c.came(n)
}

// filling returns the message to which the rest of the begun frame belongs, or nil.
func (c *Conn) filling() *partial {
	if l := c.begun.link; l != nil && l.state == linkOpen && l.partial.active {
		return &l.partial
	}
	return nil
}

// came counts n payload bytes that have arrived in their final memory.
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
