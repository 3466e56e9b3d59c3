package amqp

import (
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

const (
	// lapseGrace is how long after the end of its lock a delivery is kept, lest clocks differ.
	lapseGrace = 5 * time.Second
	// lapsePause is how long to wait at least between looks for deliveries whose locks have ended.
	lapsePause = time.Second
	// fewRenewals is how many renewals are kept without a look for those that have ended.
	fewRenewals = 1024
)

// outstanding counts the deliveries of a connection, to bound them.
type outstanding struct {
	pending   int  // PeekLock deliveries that wait to be sent
	bytes     int  // of all deliveries that wait to be sent
	receivers int  // links that receive, but browsers
	settling  int  // settlements under way of deliveries that are neither pending nor unsettled
	starved   bool // links would ask for deliveries if the connection had room
	crowded   bool // links would ask for deliveries if some were settled, or lapsed

	look    time.Time                    // when to look for lapsed deliveries, not before
	renewed map[core.LockToken]time.Time // locks that the client has renewed, and until when
	prune   int                          // how large renewed may grow before it is looked through
}

// unsettled returns how many PeekLock deliveries the connection has, of those that count towards its bound.
func (c *conn) unsettled() int {
	return c.eng.Unsettled() + c.outstanding.pending + c.outstanding.settling
}

// feed lets links ask for deliveries once there is room for unsettled ones again.
func (c *conn) feed(now time.Time) {
	r := &c.outstanding
	lapsed := r.crowded && !now.Before(r.look) && c.lapse(now)
	relieved := r.starved && c.unsettled() < c.bridge.opts.MaxConnectionUnsettled && r.bytes <= fair.Pending/2
	if !lapsed && !relieved {
		return
	}
	r.starved, r.crowded = false, false
	for l := range c.eng.Links() {
		if d, ok := l.Data.(interface{ ask() }); ok {
			d.ask()
		}
	}
}

// lapse forgets deliveries whose locks have ended, so that a client that leaves some unsettled does not stop its links,
// and reports whether there were any. The client may have renewed a lock; what it renews on another connection is not
// known here.
func (c *conn) lapse(now time.Time) bool {
	r := &c.outstanding
	n, next := c.eng.Lapse(now.Add(-lapseGrace), func(tag engine.Tag, until time.Time) time.Time {
		if later := r.renewed[swapToken(core.LockToken(tag))]; later.After(until) {
			return later
		}
		return until
	})
	r.look = now.Add(lapsePause)
	if next = next.Add(lapseGrace); next.After(r.look) {
		r.look = next
	}
	r.crowded = r.crowded && c.eng.Unsettled() > 0
	return n > 0
}

// renew notes until when a lock is renewed.
func (c *conn) renew(token core.LockToken, until, now time.Time) {
	r := &c.outstanding
	if r.renewed == nil {
		r.renewed = make(map[core.LockToken]time.Time)
	}
	r.renewed[token] = until
	if len(r.renewed) <= max(r.prune, fewRenewals) {
		return
	}
	for t, until := range r.renewed {
		if until.Before(now) {
			delete(r.renewed, t)
		}
	}
	r.prune = 2 * len(r.renewed)
}
