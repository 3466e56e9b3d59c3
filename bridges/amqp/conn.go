package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/value"
)

const (
	// maxBacklog is the number of unsent bytes at which the connection is no longer read.
	maxBacklog = 1 << 20
	// fewUnsaid is the number of unsent bytes at which deliveries wait, so that buffers stay small.
	fewUnsaid  = 128 << 10
	closeGrace = 2 * time.Second
	// incomingWindow bounds the transfer frames of an AMQP session until the next flow.
	incomingWindow = 5000
	// maxBusy is the number of broker calls in flight above which the connection is not read.
	maxBusy = 1000

	stoppingText = "The gateway is stopping. Connect again."
)

// conn is one connection. Except where noted, only jobs of its owner (package link) use its fields.
type conn struct {
	link.Conn
	bridge *Bridge // never changed, so any goroutine may use it
	cost   int64   // memory of the connection without its sessions and links
	eng    *engine.Conn

	intake
	output
	client
	backlog
	holdings
	openTransactions
	ending
}

type backlog struct {
	sends        []*senderLink // links with messages for the next call
	settleQueues map[core.Address]*settleQueue
	full         []*settleQueue // queues with settlements for the next call
	waiting      []waiter       // links with deliveries that the writer had no room for
	outstanding  outstanding
	nodes        []*replyLink
	replies      int // bytes of responses that wait for credit
	scratch      []byte
}

type waiter interface {
	// resume sends what the writer accepts. It returns true if only the writer delays the rest.
	resume() bool
}

func newConn(b *Bridge, nc net.Conn) *conn {
	c := &conn{bridge: b, cost: fair.Connection(nc)}
	c.Open(&b.shared, nc, c)
	c.resumed = make(chan struct{}, 1)
	c.settleQueues = make(map[core.Address]*settleQueue)
	c.writer = &writer{nc: nc, direct: link.SocketOf(nc), timeout: b.opts.WriteTimeout, tasks: &c.Tasks}
	c.until = c.Since.Add(b.opts.HandshakeTimeout)
	c.eng = engine.New(engine.Options{
		ContainerID:    b.container,
		Mechanisms:     []value.Symbol{"MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"},
		Properties:     value.Map{{Key: value.Symbol("product"), Value: "crosstown"}, {Key: value.Symbol("version"), Value: b.opts.Version}},
		MaxFrameSize:   b.opts.MaxFrameSize,
		MaxSessions:    b.opts.MaxSessions,
		MaxHandles:     b.opts.MaxHandles,
		MaxLinks:       b.opts.MaxLinks,
		IncomingWindow: incomingWindow,
		Begins:         c.begins,
		IdleTimeout:    b.opts.IdleTimeout,
		Leeway:         link.Leeway,
		ByReference:    c.writer.references(),
	}, c, time.Now())
	c.eng.Bound(engine.Bounds{Sessions: strangerSessions, Links: strangerLinks})
	return c
}

func (c *conn) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { c.Owner.Post(func() { c.drain(stoppingText) }) })
	defer stop()
	c.Owner.Do(func() {}) // an empty job, after which the owner sets the timer
	c.read()
	<-c.Owner.Ended()
	if err := c.eng.Err(); err != nil {
		return err
	}
	return c.lost
}

func (c *conn) Fail(err error) {
	c.Log.Error("connection", "err", err)
	c.lost = err
	_ = c.NC.Close() // ends the reader
}

func (c *conn) dispose() {
	c.writer.stop()
	c.Dispose(c.eng.Abandon)
}

func (c *conn) mayRead() bool {
	most := c.bridge.opts.MaxMessageBytes
	if !c.known.Load() {
		most = min(most, strangerBytes)
	}
	return !c.gone && c.arrival.taken() && c.Calls.Busy() <= maxBusy && c.buffered <= most && c.eng.Buffered() <= maxBacklog
}

// Pass does everything that is possible now. When the socket has taken all output, it starts again,
// because waiting deliveries, or a close, may now be possible.
func (c *conn) Pass() {
	for again := true; again; {
		now := time.Now()
		if !c.arrival.taken() {
			c.take(now)
		}
		c.feed(now)
		c.resume()
		c.start()
		c.Timer.Arm(c.tick(now))
		c.eng.Flush()
		c.charge()
		again = c.write(now)
	}
	if c.pending && (c.mayRead() || c.gone) {
		c.pending, c.next.into = false, c.eng.Into()
		c.resumed <- struct{}{} // does not block: the reader is waiting for it
	}
	if c.over() {
		c.Owner.Stop()
		_ = c.NC.Close() // ends the reader
	}
}

func (c *conn) take(now time.Time) {
	a := &c.arrival
	if a.filled > 0 {
		c.eng.Filled(a.filled, now)
		a.filled = 0
	}
	if len(a.chunk) > 0 {
		a.chunk = a.chunk[c.eng.Receive(a.chunk, now):]
	}
	if len(a.chunk) > 0 && c.eng.Waiting() {
		return
	}
	c.patience = time.Time{} // a link that has ended no longer waits for memory
	c.next.untaken = len(a.chunk)
	if c.eng.Done() { // the engine takes no more bytes
		c.next.untaken = 0
	}
	a.chunk = nil
}

func (c *conn) resume() {
	if len(c.waiting) == 0 || c.eng.Buffered() > fewUnsaid {
		return
	}
	waiting := c.waiting
	c.waiting = nil
	for _, w := range waiting {
		if w.resume() {
			c.waiting = append(c.waiting, w)
		}
	}
}

func (c *conn) start() {
	for _, l := range c.sends {
		l.start()
	}
	c.sends = c.sends[:0]
	for _, p := range c.full {
		p.start()
	}
	c.full = c.full[:0]
}

// write sends what the transport takes without blocking; the writer's goroutine sends the rest.
// sent is true if no output is left.
func (c *conn) write(now time.Time) (sent bool) {
	if c.writing || c.lost != nil || c.eng.Buffered() == 0 {
		return false
	}
	parts, out := c.eng.Take(c.parts[:0], c.spare, now)
	c.parts, c.spare = parts, nil
	if c.Last > 0 {
		c.writing = true
		c.writer.finish(head(parts, c.Last), func(err error) { c.Owner.Do(func() { c.wrote(out, cmp.Or(err, errBroken)) }) })
		return false
	}
	left, err := c.writer.try(parts)
	if err != nil || len(left) == 0 {
		c.wrote(out, err)
		return err == nil
	}
	c.writing = true
	c.writer.finish(left, func(err error) { c.Owner.Do(func() { c.wrote(out, err) }) })
	return false
}

var errBroken = errors.New("a fault rule has broken the connection")

func (c *conn) wrote(out []byte, err error) {
	c.writing = false
	clear(c.parts)
	c.spare = engine.Spare(out)
	if err != nil {
		c.disconnected(fmt.Errorf("cannot write to the client: %w", err))
	}
}

func (c *conn) Panicked() {
	c.eng.Close(&wire.Error{Condition: wire.CondInternalError, Description: internalText})
}

const maxProduct = 256

func (c *conn) Evacuate(reason string) { c.drain(reason) }

func (c *conn) Describe() bridges.Connection {
	told := c.About(c.protocol())
	told.Sessions = c.eng.Sessions()
	for l := range c.eng.Links() {
		switch d := l.Data.(type) {
		case *senderLink:
			told.Links = append(told.Links, bridges.Link{Entity: d.destination.String(), Direction: bridges.Sends})
		case *receiverLink:
			told.Links = append(told.Links, bridges.Receiving(d.addr.String(), d.mode, d.session))
		case *browseLink:
			told.Links = append(told.Links, bridges.Receiving(d.addr.String(), core.PeekLock, nil))
		}
	}
	slices.SortFunc(told.Links, func(x, y bridges.Link) int {
		return cmp.Or(cmp.Compare(x.Entity, y.Entity), cmp.Compare(y.Direction, x.Direction), cmp.Compare(x.SessionID(), y.SessionID()))
	})
	return told
}

func (c *conn) protocol() string {
	if inside, ok := c.NC.(interface{ Protocol() string }); ok {
		return inside.Protocol()
	}
	return "amqp"
}

// productOf returns the product and version that SDKs send, or else the container id.
func productOf(o *wire.Open) string {
	property := func(name string) string {
		s, _ := text(o.Properties.At(name))
		return s
	}
	name, version := property("product"), property("version")
	switch {
	case name == "":
		name = cmp.Or(property("user-agent"), o.ContainerID)
	case version != "":
		name += " " + version
	}
	return strings.ToValidUTF8(name[:min(len(name), maxProduct)], "")
}
