package amqp

import (
	"errors"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
)

// ending is the progress of closing a connection.
type ending struct {
	lost    error     // why the transport is gone
	gone    bool      // nothing is read any more
	closing time.Time // when to stop waiting for operations in flight; zero: the connection is not closing
	drains  string    // why the connection closes once nothing is in flight, for the client; "": it is not closing
	said    bool      // our close is sent, and closing is when to stop waiting for the client's
	ended   bool      // both sides have closed, and closing is when to stop waiting for broker calls
}

// disconnected notes that the transport is gone.
func (c *conn) disconnected(err error) {
	c.gone = true
	if c.lost == nil {
		c.lost = err
	}
	c.eng.Abandon()
}

// tick does what is due and returns when to call it again; zero means never.
func (c *conn) tick(now time.Time) (next time.Time) {
	due := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if c.eng.Closing() || c.eng.Done() {
		return c.end(now)
	}
	if !c.mayRead() {
		c.eng.Heard(now)
	}
	if at := c.eng.Tick(now); !at.IsZero() {
		due(at)
	}
	if !c.patience.IsZero() {
		due(c.patience)
	}
	if len(c.transactions) > 0 {
		if at := c.expireTransactions(now); !at.IsZero() {
			due(at)
		}
	}
	if c.outstanding.crowded {
		due(c.outstanding.look)
	}
	if !c.closing.IsZero() {
		if c.busy == 0 && c.eng.Unsent() == 0 || !now.Before(c.closing) {
			c.eng.Close(&wire.Error{Condition: wire.CondConnectionForced, Description: c.drains})
			return c.end(now)
		}
		due(c.closing)
		return next
	}
	if at := c.checkIdentity(now); !at.IsZero() {
		due(at)
	}
	return next
}

// end gives the client closeGrace to answer a close, and then broker calls in flight DrainGrace to
// finish. It returns the time at which the current one of these ends.
func (c *conn) end(now time.Time) time.Time {
	switch {
	case c.eng.Closing() && !c.said:
		c.said = true
		c.closing = now.Add(closeGrace)
	case c.eng.Closing() && !now.Before(c.closing):
		c.disconnected(errNoClose)
		fallthrough
	case c.eng.Done() && !c.ended:
		c.ended = true
		if c.drains == "" { // a draining connection has given its calls that time already
			c.closing = now.Add(c.bridge.opts.DrainGrace)
		}
	}
	return c.closing
}

var errNoClose = errors.New("the client did not answer the gateway's close frame")

// over reports whether the connection has ended, and nothing is left to do or the time for it is up.
func (c *conn) over() bool {
	if !c.ended {
		return false
	}
	if !time.Now().Before(c.closing) {
		return true
	}
	if c.lost == nil && (c.writing || c.eng.Buffered() > 0) {
		return false
	}
	if !c.gone {
		c.gone = true
		_ = c.nc.Close()
	}
	return c.busy == 0 && len(c.full) == 0 && len(c.sends) == 0
}

// drain begins to close the connection: deliveries stop, and once nothing is in flight the
// connection is closed with the given reason.
func (c *conn) drain(reason string) {
	if c.drains != "" {
		return
	}
	c.drains = reason
	c.closing = time.Now().Add(c.bridge.opts.DrainGrace)
	if !c.eng.Opened() {
		c.eng.Close(nil)
	}
	for l := range c.eng.Links() {
		if r, ok := l.Data.(*receiverLink); ok {
			r.drain()
		}
	}
}
