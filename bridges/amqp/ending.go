package amqp

import (
	"cmp"
	"errors"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
)

type ending struct {
	lost    error     // why the transport failed, or nil
	gone    bool      // nothing is read any more
	closing time.Time // deadline, or zero: first for calls in flight; then (said) for the client's close; then (ended) for broker calls
	drains  string    // text for the client about why the connection closes once no call is in flight; "": it stays open
	said    bool      // our close is sent
	ended   bool      // both sides have closed
}

func (c *conn) disconnected(err error) {
	c.gone = true
	c.lost = cmp.Or(c.lost, err)
	c.eng.Abandon()
}

// tick does what is due. next is when to call it again, or zero for never.
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
	if c.outstanding.atLimit {
		due(c.outstanding.look)
	}
	if !c.closing.IsZero() {
		if c.Calls.Busy() == 0 && c.eng.Unsent() == 0 || !now.Before(c.closing) {
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

// end returns c.closing, and sets it at its first call: the client has closeGrace to answer a
// close, and then broker calls in flight have DrainGrace.
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
		if c.drains == "" { // a draining connection has already waited for its calls
			c.closing = now.Add(c.bridge.opts.DrainGrace)
		}
	}
	return c.closing
}

var errNoClose = errors.New("the client did not answer the gateway's close frame")

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
		_ = c.NC.Close()
	}
	return c.Calls.Busy() == 0 && len(c.full) == 0 && len(c.sends) == 0
}

// drain stops deliveries. Once no call is in flight, the connection closes with the given reason.
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
