package amqp

import (
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/bridges/budget"
	"github.com/crosstown-mq/crosstown/core"
)

// holdings is the memory that a connection holds.
type holdings struct {
	memory   *budget.Share
	charged  int64     // bytes that memory counts
	buffered int64     // bytes of messages to be sent
	patience time.Time // until when the message that begins may wait for memory; zero: none does
}

// Reserve asks the gateway's budget for the memory of a message that arrives. While there is none nothing is read, unless
// that would keep other messages from being complete; after some time the message is refused.
func (c *conn) Reserve(_ *engine.Link, n int64, begun bool) engine.Verdict {
	if !c.known.Load() && c.eng.Reserved()+n > strangerBytes {
		return engine.Never
	}
	if c.memory.Take(n) {
		c.charged += n
		c.patience = time.Time{}
		return engine.Granted
	}
	now := time.Now()
	switch {
	case begun || !c.memory.Fits(n):
		return engine.Never
	case c.patience.IsZero():
		c.patience = now.Add(budget.Patience)
	case !now.Before(c.patience):
		c.patience = time.Time{}
		return engine.Never
	}
	c.memory.Wait(n)
	return engine.Later
}

// Crowded says that a message is refused for want of memory.
func (c *conn) Crowded(l *engine.Link, n int64) *wire.Error {
	return c.refusal(l, c.memory.Refuse(n), addressOf(l))
}

// TooSlow says that a message is given up because its rest does not come.
func (c *conn) TooSlow(l *engine.Link, size int64) *wire.Error {
	return c.refusal(l, core.Refuse(core.Timeout, "The rest of the message did not come in time, after %d bytes: at least %d bytes a second must come, with pauses of at most %v.",
		size, budget.MinRate, budget.Grace), addressOf(l))
}

// addressOf is the address of a link's entity, if it has one.
func addressOf(l *engine.Link) core.Address {
	switch d := l.Data.(type) {
	case *senderLink:
		return d.addr
	case *receiverLink:
		return d.addr
	case *browseLink:
		return d.addr
	case *requestLink:
		return d.addr
	}
	return core.Address{}
}

// charge has the budget count what the connection holds: what is read and not complete or not carried out, and what the
// client has not taken.
func (c *conn) charge() {
	held := c.eng.Reserved() + c.buffered + c.enlisted + int64(c.outstanding.bytes+c.replies+c.eng.Unsent())
	c.memory.Add(held - c.charged)
	c.charged = held
}
