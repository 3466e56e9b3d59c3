package websocket

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// sendQueue collects the messages that a connection sends to one entity. At most one call of its
// Sender is in flight, which keeps the order. Requests that arrive meanwhile go into the next call.
type sendQueue struct {
	conn    *conn
	address core.Address
	key     string
	sender  core.Sender
	queue   []*request
	sending bool
	dropped bool
}

func (c *conn) send(q *request) {
	addr, err := c.addressOf(q.entity, core.Send)
	if err != nil {
		c.refuse(q, err)
		return
	}
	key := core.FoldName(addr.String())
	o := c.sendQueues[key]
	if o == nil {
		o = &sendQueue{conn: c, address: addr, key: key}
		if c.sendQueues == nil {
			c.sendQueues = make(map[string]*sendQueue)
		}
		c.forgetIdle()
		c.sendQueues[key] = o
	}
	o.queue = append(o.queue, q)
	if len(o.queue) == 1 && !o.sending {
		c.sends = append(c.sends, o)
	}
}

// addressOf parses entity and checks the right, which may have expired since the sender was opened.
func (c *conn) addressOf(entity string, right core.Right) (core.Address, error) {
	addr, err := core.ParseAddress(entity)
	if err != nil {
		return addr, err
	}
	return addr, c.Identity.Check(right, addr.String(), time.Now())
}

func (c *conn) forgetIdle() {
	if len(c.sendQueues) < maxSenders {
		return
	}
	for _, o := range c.sendQueues {
		if !o.sending && len(o.queue) == 0 {
			o.drop()
			return
		}
	}
}

func (o *sendQueue) start() {
	if o.sending || len(o.queue) == 0 {
		return
	}
	batch := o.queue
	o.queue = nil
	o.sending = true
	sender, id := o.sender, o.conn.Identity
	o.conn.Calls.Begin(func(ctx context.Context) func() {
		opened := sender
		if opened == nil {
			var err error
			opened, err = o.conn.bridge.front.OpenSender(ctx, id, o.address, func(error) {
				o.conn.Owner.Do(o.drop)
			})
			if err != nil {
				return func() { o.sent(batch, nil, err) }
			}
		}
		groups := make([][]*core.Message, len(batch))
		for i, q := range batch {
			groups[i] = q.messages
		}
		appended := opened.Send(ctx, groups)
		return func() {
			o.sender = opened
			o.sent(batch, appended, nil)
		}
	})
}

func (o *sendQueue) sent(batch []*request, appended []core.Appended, failure error) {
	o.sending = false
	for i, q := range batch {
		q.messages = nil
		switch {
		case failure != nil:
			o.conn.refuse(q, failure)
		case i >= len(appended): // the broker should have returned a result for each group
			o.conn.refuse(q, core.Internal)
		default:
			o.conn.conclude(q, appended[i].Err, func(w codec.Writer) {
				codec.WriteList(w.Key("sequenceNumbers"), appended[i].Numbers, codec.Writer.Int)
			})
		}
	}
	switch {
	case len(o.queue) == 0 && (o.dropped || o.sender == nil):
		o.drop()
	case len(o.queue) > 0:
		if o.dropped { // a new sender checks the right to send for the queued messages
			o.dropped = false
			o.release()
		}
		o.conn.sends = append(o.conn.sends, o)
	}
}

// drop closes the sender when its messages are stored. The next request to send to the entity opens
// a new one, which checks the right to send.
func (o *sendQueue) drop() {
	o.dropped = true
	if o.sending || len(o.queue) > 0 {
		return
	}
	if o.conn.sendQueues[o.key] == o {
		delete(o.conn.sendQueues, o.key)
	}
	o.release()
}

func (o *sendQueue) release() {
	if sender := o.sender; sender != nil {
		o.sender = nil
		o.conn.Calls.Begin(func(context.Context) func() {
			sender.Close()
			return func() {}
		})
	}
}

func (c *conn) cancelScheduled(ctx context.Context, o call) (answer, error) {
	return nil, c.bridge.front.Cancel(ctx, o.id, core.At(o.entity), o.sequenceNumbers)
}
