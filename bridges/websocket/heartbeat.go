package websocket

import "time"

// heartbeat is how the gateway finds out whether the client is there.
type heartbeat struct {
	ping    time.Time // when to ping
	pinged  pinging   // how far the last ping has come
	pong    time.Time // until when the client must have said something; zero: nothing is awaited
	stalled bool      // nothing was read of late
}

// pinging says how far a ping has come on its way.
type pinging uint8

const (
	noPing     pinging = iota
	pingWaits          // in out
	pingLeaves         // the writer has it
)

// beat pings, and closes a connection whose client does not answer. The
// time for that begins when the ping is written: much may go before it. It
// returns when something is due next.
func (c *conn) beat(now time.Time) time.Time {
	interval := c.bridge.opts.PingInterval
	defer func() { c.stalled = len(c.arrived) > 0 || c.pending && !c.mayBegin() }()
	if !c.pong.IsZero() {
		switch {
		case c.heard.Load() >= c.pong.Add(-interval).UnixNano():
			c.pong = time.Time{}
		case c.stalled: // what it said waited until now
			c.pong = now.Add(interval)
		case !now.Before(c.pong):
			c.close(closeTooSlow, "No pong came.")
			return time.Time{}
		}
	}
	if !now.Before(c.ping) {
		c.ping = now.Add(interval)
		if c.pinged == noPing && c.pong.IsZero() {
			c.out = appendControl(c.out, opPing, "")
			c.pinged = pingWaits
		}
	}
	return sooner(c.ping, c.pong)
}

// sooner is the earlier of two instants, of which b may be zero.
func sooner(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
