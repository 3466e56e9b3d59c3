package websocket

import (
	"cmp"
	"errors"
	"time"

	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
)

type ending struct {
	said     bool
	broken   bool // nothing can be written any more, but the client's earlier frames are still read
	gone     bool
	lost     error
	drains   *fault    // how the connection closes once no call is in flight; nil if it does not
	deadline time.Time // when to stop waiting: for a token, for the client's close, or for calls in flight
}

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

// disconnected notes the error after which nothing can be read. The client may still read answers.
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
	c.lost = cmp.Or(c.lost, err)
	c.said = true
	c.deadline = time.Now().Add(c.bridge.opts.DrainGrace)
	c.letGo()
}

// drain stops the deliveries of feeds. Requests in flight are still answered.
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

func (c *conn) ended(now time.Time) bool {
	if !c.gone {
		return false
	}
	return c.Calls.Busy() == 0 && c.Calls.Events() == 0 && c.writing == 0 && len(c.out) == 0 || !now.Before(c.deadline)
}

func (c *conn) leaves() bool { return c.said || c.broken }

func (c *conn) letGo() {
	for _, f := range c.feeds {
		f.drop()
	}
	for _, o := range c.sendQueues {
		o.drop()
	}
}

func (c *conn) dispose() {
	c.gone, c.said = true, true
	c.Dispose(c.letGo)
}

func (c *conn) Fail(err error) {
	c.Log.Error("connection", "err", err)
	_ = c.NC.SetWriteDeadline(time.Now().Add(closeGrace))
	_, _ = c.NC.Write(appendClose(nil, closeInternal, refusals.Text(core.Internal))) // the client may not understand it, if a frame is half written
	_ = c.NC.Close()                                                                 // ends the reader
}
