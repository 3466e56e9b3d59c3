package amqp

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

const (
	browsePage = 100
	// The pause after a search that finds nothing grows from soonBrowse to lateBrowse.
	soonBrowse = 125 * time.Millisecond
	lateBrowse = 2 * time.Second
)

// browseLink is a link whose source has the distribution mode copy, as that of a JMS QueueBrowser:
// it reads active messages in order, without locking them, and ignores outcomes. The broker does
// not announce new messages to browsers, so a browser that has read all messages polls.
type browseLink struct {
	end
	next    []int64         // by partition: the next sequence number to read
	pending []core.Delivery // read, but not sent yet
	looking bool            // a call of look, or the pause before it, is in progress
	last    bool            // the call of look in progress began after the client's drain
	pause   time.Duration
	wake    func() // ends the pause, or nil
	queued  bool   // is in conn.waiting
	over    bool
}

func (c *conn) attachBrowser(l *engine.Link, addr core.Address) {
	b := &browseLink{end: end{conn: c, link: l, addr: addr}, pause: soonBrowse}
	l.Data = b
	if at, _ := sessionWanted(l.Attach().Source.Filter); at >= 0 {
		l.Refuse(c.refusal(l, core.Refuse(core.NotImplemented, "Browsing one session is not supported: browse the whole entity, or accept the session and peek at its messages."), addr))
		return
	}
	open(c, l, addr, func(ctx context.Context, id core.Identity) (core.Entity, error) {
		if _, err := c.bridge.front.Peek(ctx, id, b.addr, new(core.Active), 0, 1); err != nil {
			return core.Entity{}, err
		}
		return c.bridge.front.Resolve(ctx, id, b.addr)
	}, b.attach, func(core.Entity) {})
}

func (b *browseLink) attach(e core.Entity) bool {
	b.next = make([]int64, max(1, e.Partitions))
	if b.over || !b.link.Accept(engine.Terms{MaxMessageSize: core.MaxMessageSizeKB << 10, Properties: linkProperties(0), DistributionMode: modeCopy}) {
		return false
	}
	b.send() // the client may have given credit already
	return true
}

func (b *browseLink) detached() {
	b.over = true
	b.hold(-1)
	b.pending = nil
	if b.wake != nil {
		b.wake()
	}
}

func (b *browseLink) flowed() {
	if b.wake != nil {
		b.wake()
	}
	b.send()
}

func (b *browseLink) ask() {
	c, n := b.conn, int(min(b.link.Credit(), browsePage))
	switch {
	case n == 0 || c.drains != "" || b.over:
		b.link.Drained() // answers a drain, if there is one
		return
	case b.looking || len(b.pending) > 0:
		return
	case c.Memory.Available(1) == 0 || c.outstanding.bytes > fair.Pending:
		c.outstanding.noMemory = true
		c.Memory.Wait(1)
		return
	}
	b.looking, b.last = true, b.link.Draining()
	id := c.Identity
	c.Calls.Begin(func(ctx context.Context) func() {
		found, err := b.look(ctx, id, n)
		return func() { b.looked(found, err) }
	})
}

// look reads at most n messages, all from one partition.
func (b *browseLink) look(ctx context.Context, id core.Identity, n int) ([]core.Delivery, error) {
	for i, from := range b.next {
		ds, err := b.conn.bridge.front.Peek(ctx, id, b.addr, new(core.Active), core.SequenceNumber(uint16(i), from), n)
		if err != nil {
			return nil, err
		}
		for k := range ds {
			if at, number := core.SplitSequenceNumber(ds[k].SequenceNumber); int(at) != i {
				ds = ds[:k]
				break
			} else {
				b.next[i] = number + 1
			}
		}
		if len(ds) > 0 {
			return ds, nil
		}
	}
	return nil, nil
}

func (b *browseLink) looked(found []core.Delivery, err error) {
	b.looking = false
	switch {
	case b.over:
	case err != nil && !core.CodeOf(err).Retriable():
		b.close(err)
	case len(found) > 0:
		b.pending, b.pause = found, soonBrowse
		b.hold(1)
		b.send()
	case b.last && err == nil:
		b.link.Drained()
	case b.link.Draining() && err == nil:
		b.ask()
	default:
		b.looking = true
		pause := time.AfterFunc(b.pause, func() { b.conn.Owner.Begin(b.again) })
		b.wake = func() {
			if pause.Stop() { // otherwise the timer has started b.again, which must not run twice
				b.conn.Owner.Post(b.again)
			}
		}
		b.pause = min(2*b.pause, lateBrowse)
	}
}

func (b *browseLink) again() {
	b.looking, b.wake = false, nil
	b.ask()
}

func (b *browseLink) hold(sign int) {
	for i := range b.pending {
		b.conn.outstanding.bytes += sign * b.pending[i].Size()
	}
}

func (b *browseLink) send() {
	if !b.queued && b.resume() {
		b.queued = true
		b.conn.waiting = append(b.conn.waiting, b)
	}
}

// resume sends pending messages; beyond MaxUnsettled, it sends them as settled. left is true if
// some are still pending.
func (b *browseLink) resume() (left bool) {
	c, f := b.conn, form{}
	f.peeked = true
	mode := b.link.Attach().SndSettleMode.Or(wire.SenderMixed)
	for len(b.pending) > 0 && b.link.Ready() && c.eng.Buffered() <= fewUnsaid {
		d := &b.pending[0]
		var payload engine.Payload
		payload, c.scratch = payloadOf(c.scratch, d, f)
		var tag engine.Tag
		binary.BigEndian.PutUint64(tag[:], uint64(d.SequenceNumber))
		settled := mode == wire.SenderSettled || b.link.Unsettled() >= c.bridge.opts.MaxUnsettled || c.unsettled() >= c.bridge.opts.MaxConnectionUnsettled
		b.link.Send(tag, settled, time.Time{}, payload)
		c.outstanding.bytes -= d.Size()
		b.pending[0] = core.Delivery{}
		b.pending = b.pending[1:]
	}
	if len(b.pending) > 0 && b.link.Credit() > 0 && !b.over {
		return true
	}
	b.queued = false
	b.ask()
	return false
}

func (b *browseLink) disposed(d engine.Disposal) {
	if d.Settled {
		return
	}
	if state, ok := d.State.(wire.TransactionalState); ok {
		d.State = state.Outcome
	}
	item := settleItem{state: d.State}
	if outcome(d.State, &core.Settlement{}, &item) != nil {
		item.state = wire.Accepted{}
	}
	b.link.Session().Settle(d.ID, item.state)
}
