package engine

import (
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
)

const (
	// LargeFrame is the frame size, in bytes, from which the engine takes a transfer before the
	// whole frame has arrived, so that the rest can be read directly to its final place. For
	// smaller frames, taking the whole frame is cheaper.
	LargeFrame = 8 << 10
	// LeastBegun is the number of bytes of a large frame that must have arrived before the engine
	// takes it. They suffice to read the size of the message.
	LeastBegun = 1 << 10
)

// begun is a transfer frame whose performative has arrived and whose payload has not, or only in part.
type begun struct {
	left int   // bytes of the payload that are to come
	link *Link // the link of the message that the bytes belong to; nil: they are discarded
	last bool  // the frame ends that message
}

// begin takes the beginning of a large transfer frame, and returns how many bytes it has taken.
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

// goOn takes those bytes of the begun frame that have arrived, and returns their number.
func (c *Conn) goOn(b []byte) int {
	n := min(len(b), c.begun.left)
	if n > 0 {
		copy(c.Into(), b)
		c.came(n)
	}
	return n
}

// Into returns the memory for the peer's next bytes if they belong to a message, or nil if they are
// for Receive. A caller that reads into this memory then calls Filled, and must not call Receive in
// between.
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

// filling returns the message that waits for the rest of a frame, or nil if no message does.
func (c *Conn) filling() *partial {
	if l := c.begun.link; l != nil && l.state == linkOpen && l.partial.active {
		return &l.partial
	}
	return nil
}

// came counts n more bytes of the payload, which are already in their final place.
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
