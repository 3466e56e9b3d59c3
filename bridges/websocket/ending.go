package websocket

import (
	"errors"
	"time"

	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
)

// ending is the progress of closing a connection.
type ending struct {
	said     bool      // our close is sent
	broken   bool      // nothing can be written any more; what the client has written before is read
	gone     bool      // nothing is read any more
	lost     error     // why the connection ended
	drains   *fault    // how the connection closes once nothing is in flight; nil: it is not closing
	deadline time.Time // when to stop waiting: for auth, the client's close, or what is in flight
}

// close sends a close frame, which the client has closeGrace to answer.
func (c *conn) close(code closeCode, reason string) {
	if c.said {
		return
	}
	if !c.broken {
		c.out = appendClose(c.out, code, reason)
	}
	c.said = true
	c.deadline = time.Now().Add(closeGrace)
	if c.lost == nil && code != closeNormal && code != closeNoStatus {
		c.lost = &fault{code, reason}
	}
	c.letGo()
}

// disconnected notes that nothing more can be read, and why. Answers in flight are still written, if
// the client can read them.
func (c *conn) disconnected(err error) {
	if fault, ok := errors.AsType[*fault](err); ok {
		c.close(fault.code, fault.text)
		return
	}
	if c.gone {
		return
	}
	c.gone = true
	if closed, ok := errors.AsType[*websocket.CloseError](err); ok && !c.said {
		c.close(closeCode(closed.Code), "")
		err = nil
		if closed.Code != int(closeNormal) && closed.Code != int(closeNoStatus) {
			err = closed
		}
	}
	if c.lost == nil {
		c.lost = err
	}
	c.said = true
	c.deadline = time.Now().Add(c.bridge.opts.DrainGrace)
	c.letGo()
}

// disconnect breaks the connection without a close frame: at once, or after the next write, which
// is cut to most bytes. Any goroutine may call it.
func (c *conn) disconnect(most int) {
	if most > 0 {
		c.owner.Do(func() { c.last = most })
		return
	}
	_ = c.nc.Close() // which ends the reader
}

// drain announces to the client that the connection will end. Feeds take no more deliveries;
// requests in flight are still answered.
func (c *conn) drain(end *fault) {
	if c.drains != nil {
		return
	}
	c.drains = end
	if c.said {
		return
	}
	c.tell("bye", nil)
	for _, f := range c.feeds {
		f.quiet()
	}
	c.deadline = time.Now().Add(c.bridge.opts.DrainGrace)
}

// ended reports whether the connection has ended and nothing is left to do.
func (c *conn) ended(now time.Time) bool {
	if !c.gone {
		return false
	}
	return c.busy == 0 && c.writing == 0 && len(c.out) == 0 || !now.Before(c.deadline)
}

// leaves reports whether the client gets nothing more.
func (c *conn) leaves() bool { return c.said || c.broken }

// letGo releases everything that the connection holds.
func (c *conn) letGo() {
	for _, f := range c.feeds {
		f.drop()
	}
	for _, o := range c.sendQueues {
		o.drop()
	}
}

// dispose releases what the ended connection holds, and waits until its goroutines have ended.
func (c *conn) dispose() {
	c.gone, c.said = true, true
	c.cancel()
	c.timer.Stop()
	_ = c.nc.Close()
	link.End(&c.tasks, c.owner, c.log, c.letGo)
	c.memory.Close()
	if c.leave != nil {
		c.leave()
	}
}

// fail ends the connection because a job panicked.
func (c *conn) fail(err error) {
	c.log.Error("connection", "err", err)
	_ = c.nc.SetWriteDeadline(time.Now().Add(closeGrace))
	_, _ = c.nc.Write(appendClose(nil, closeInternal, refusals.Text(core.Internal))) // if no frame is half written
	_ = c.nc.Close()                                                                 // which ends the reader
}
