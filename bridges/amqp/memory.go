package amqp

import (
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

type holdings struct {
	charged  int64     // bytes that Memory counts at present
	buffered int64     // bytes of messages that are not stored yet
	stood    int64     // bytes that Standing counts at present, for the connection, its sessions and links
	sessions int       // links that wait for a session, have one or release it: each has a goroutine
	patience time.Time // until when a message that has arrived in part may wait for memory; zero if none waits
}

// Reserve requests memory for an arriving message. If there is none, the bridge stops reading the
// connection, and refuses the message after fair.Patience. If begun is true, it refuses the message
// at once, because messages that have arrived in part could not be completed during a wait.
func (c *conn) Reserve(l *engine.Link, n int64, begun bool) engine.Verdict {
	if !c.known.Load() && c.eng.Reserved()+n > strangerBytes {
		return engine.Never
	}
	if _, sends := l.Data.(*senderLink); !sends && c.eng.Reserved()+n <= controlBytes {
		c.Memory.Add(n) // n may be negative
		c.charged += n
		return engine.Granted
	}
	whole := n + fair.Message
	if c.Memory.Take(whole) {
		c.charged += whole
		c.patience = time.Time{}
		return engine.Granted
	}
	now := time.Now()
	switch {
	case begun || !c.Memory.Fits(whole) || c.Memory.IsRefused(whole):
		return engine.Never
	case c.patience.IsZero():
		c.patience = now.Add(fair.Patience)
	case !now.Before(c.patience):
		c.patience = time.Time{}
		return engine.Never
	}
	c.Memory.Wait(whole)
	return engine.Later
}

func (c *conn) Crowded(l *engine.Link, n int64) *wire.Error {
	c.next.rests = true
	return c.refusal(l, c.Memory.Refuse(n), addressOf(l))
}

func (c *conn) TooSlow(l *engine.Link, size int64) *wire.Error {
	return c.refusal(l, core.Refuse(core.Timeout, "The rest of the message did not arrive in time, after %d bytes: send at least %d bytes a second, with pauses of at most %v.",
		size, fair.MinRate, fair.Grace), addressOf(l))
}

// charge counts the memory of the connection in the budget: input that is incomplete or not carried
// out, and output that the client has not read.
func (c *conn) charge() {
	held := c.eng.Reserved() + c.buffered + c.enlisted + int64(c.outstanding.bytes+c.replies+c.eng.Unsent()) +
		int64(c.outstanding.pending+c.eng.Unsettled())*fair.Delivery
	c.Memory.Add(held - c.charged)
	c.charged = held
	if c.known.Load() {
		c.stand(c.structures())
	}
}

// controlBytes bounds the incomplete requests that a connection may have even without free memory,
// so that it can settle, renew, cancel and authenticate.
const controlBytes = 64 << 10

func (c *conn) structures() int64 {
	return c.cost + int64(c.eng.Sessions())*fair.Session + int64(c.eng.Attachments())*fair.Link + int64(c.sessions)*fair.SessionReceiver
}

func (c *conn) stand(bytes int64) {
	c.Standing.Add(bytes - c.stood)
	c.stood = bytes
}

func (c *conn) standMore(n int64) error {
	if !c.known.Load() { // the function bounds limits such a client instead
		return nil
	}
	if !c.Standing.Take(n) {
		return c.Standing.Refuse(n)
	}
	c.stood += n
	return nil
}

func (c *conn) begins() *wire.Error {
	if err := c.standMore(fair.Session); err != nil {
		return c.closingFor(err)
	}
	return nil
}

// costOf returns the memory of the messages in a transfer, without their bytes.
func costOf(m *engine.Message) int64 {
	if m.Format != wire.FormatBatch {
		return fair.Message
	}
	return int64(wire.CountBatch(m.Payload)) * fair.Message
}

// afford takes n bytes for the messages of a transfer, because even a small batch may contain many.
func (c *conn) afford(n int64) error {
	if n <= fair.Message {
		return nil // charge takes the memory of a single message
	}
	if !c.Memory.Take(n) {
		return c.Memory.Refuse(n)
	}
	c.charged += n
	return nil
}
