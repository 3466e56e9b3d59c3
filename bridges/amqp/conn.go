package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/value"
)

const (
	// maxBacklog is the number of bytes that may wait for the writer before reading stops.
	maxBacklog = 1 << 20
	// fewUnsaid is the number of bytes that may wait for the writer before deliveries wait too, to keep buffers small.
	fewUnsaid = 128 << 10
	// closeGrace is how long the client may take to answer a close.
	closeGrace = 2 * time.Second
	// operationTimeout ends broker calls for which the client has set no time-out.
	operationTimeout = time.Minute
	// incomingWindow is the number of transfer frames a client may send on a session before it hears from us.
	incomingWindow = 5000
	// maxBusy is the number of broker calls that may be in flight before reading stops.
	maxBusy = 1000

	stoppingText = "The gateway is stopping. Connect again."
)

// conn is one connection. Only jobs of its owner may use its fields, except where a comment says
// otherwise.
type conn struct {
	bridge   *Bridge // shared; not changed
	id       string  // not changed
	log      *slog.Logger
	refusals *refusals.Share
	nc       net.Conn
	cost     int64 // of the connection, without sessions and links
	eng      *engine.Conn
	owner    *link.Owner    // runs the jobs of reads, writes, broker calls and timers
	tasks    sync.WaitGroup // writer and broker calls
	timer    *link.Timer
	ctx      context.Context // of broker calls
	cancel   context.CancelFunc
	busy     int // broker calls in flight

	intake
	output
	client
	backlog
	holdings
	openTransactions
	ending
}

// backlog is what waits for a call of the broker, or for the client.
type backlog struct {
	sends        []*senderLink // with messages to send
	settleQueues map[core.Address]*settleQueue
	full         []*settleQueue // settle queues that are not empty
	waiting      []waiter       // links with deliveries that could not be sent at once
	outstanding  outstanding    // counts and bounds deliveries
	nodes        []*replyLink   // links on which responses go out
	replies      int            // bytes of responses that wait for credit
	scratch      []byte         // for encoding deliveries
}

// waiter is a link that has something to send when the connection has room for it.
type waiter interface {
	// resume sends what the writer takes, and reports whether something is left that waits for the writer only.
	resume() bool
}

func newConn(b *Bridge, nc net.Conn, id string, log *slog.Logger) *conn {
	c := &conn{bridge: b, id: id, log: log, nc: nc, cost: fair.Connection(nc), refusals: b.refusals.Share()}
	c.resumed = make(chan struct{}, 1)
	c.host, c.since = b.opts.Hostname, time.Now()
	c.settleQueues = make(map[core.Address]*settleQueue)
	c.writer = newWriter(nc, b.opts.WriteTimeout, &c.tasks)
	c.owner = link.New(c.pass, c.fail)
	c.memory = b.opts.Budget.Share(func() { c.owner.Post(func() {}) })
	c.memory.Evictable(func() { c.owner.Post(c.evict) })
	c.standing = b.opts.Standing.Share(nil)
	c.timer = link.NewTimer(c.owner)
	c.until = c.since.Add(b.opts.HandshakeTimeout)
	c.ctx, c.cancel = context.WithCancel(context.Background())
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

// run reads until the connection is closed and its operations in flight are done.
func (c *conn) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { c.owner.Post(func() { c.drain(stoppingText) }) })
	defer stop()
	c.owner.Do(func() {}) // which sets the timer
	c.read()
	<-c.owner.Ended()
	if err := c.eng.Err(); err != nil {
		return err
	}
	return c.lost
}

// fail ends the connection because a job panicked.
func (c *conn) fail(err error) {
	c.log.Error("connection", "err", err)
	c.lost = err
	_ = c.nc.Close() // which ends the reader
}

// dispose closes everything that belongs to the closed connection, and waits for it.
func (c *conn) dispose() {
	c.cancel()
	c.timer.Stop()
	_ = c.nc.Close()
	c.writer.stop()
	link.End(&c.tasks, c.owner, c.log, c.eng.Abandon)
	if c.leave != nil {
		c.leave()
	}
	c.memory.Close()
	c.standing.Close()
}

// mayRead reports whether the connection may read more from its client. If not, it has enough work.
func (c *conn) mayRead() bool {
	most := c.bridge.opts.MaxMessageBytes
	if !c.known.Load() {
		most = min(most, strangerBytes)
	}
	return !c.gone && c.arrival.taken() && c.busy <= maxBusy && c.buffered <= most && c.eng.Buffered() <= maxBacklog
}

// pass does everything that is possible now. It runs after the queued jobs. When the socket has taken all output,
// more may be possible: deliveries wait for room, and closing waits for the last byte.
func (c *conn) pass() {
	for again := true; again; {
		now := time.Now()
		if !c.arrival.taken() {
			c.take(now)
		}
		c.feed(now)
		c.resume()
		c.start()
		c.timer.Arm(c.tick(now))
		c.eng.Flush()
		c.charge()
		again = c.write(now)
	}
	if c.pending && (c.mayRead() || c.gone) {
		c.pending, c.next.into = false, c.eng.Into()
		c.resumed <- struct{}{} // does not block: the reader is waiting for it
	}
	if c.over() {
		c.owner.Stop()
		_ = c.nc.Close() // which ends the reader
	}
}

// take passes what was read to the engine.
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
	c.next.untaken = len(a.chunk)
	if c.eng.Done() { // the engine receives nothing any more
		c.next.untaken = 0
	}
	a.chunk = nil
}

// resume lets waiting links send while the writer keeps up.
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

// start begins broker calls for the operations that are queued.
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

// write sends the engine's output: at once as far as the transport takes it, the rest by the writer. It reports
// whether all of it has been sent.
func (c *conn) write(now time.Time) (sent bool) {
	if c.writing || c.lost != nil || c.eng.Buffered() == 0 {
		return false
	}
	parts, out := c.eng.Take(c.parts[:0], c.spare, now)
	c.parts, c.spare = parts, nil
	if c.last > 0 {
		c.writing = true
		c.writer.finish(head(parts, c.last), func(err error) { c.owner.Do(func() { c.wrote(out, cmp.Or(err, errBroken)) }) })
		return false
	}
	left, err := c.writer.try(parts)
	if err != nil || len(left) == 0 {
		c.wrote(out, err)
		return err == nil
	}
	c.writing = true
	c.writer.finish(left, func(err error) { c.owner.Do(func() { c.wrote(out, err) }) })
	return false
}

// errBroken ends a connection that is to break after a write.
var errBroken = errors.New("a fault rule has broken the connection")

// wrote continues after the write of out.
func (c *conn) wrote(out []byte, err error) {
	c.writing = false
	clear(c.parts)
	c.spare = engine.Spare(out)
	if err != nil {
		c.disconnected(fmt.Errorf("write: %w", err))
	}
}

// async runs work in its own goroutine, and then the function that work returns as a job of the owner.
func (c *conn) async(work func(ctx context.Context) (then func())) {
	c.busy++
	ctx, cancel := context.WithTimeout(c.ctx, operationTimeout)
	c.spawn(ctx, cancel, work, func() { c.busy-- })
}

// wait does the same as async, for work that may wait for an event. The connection can read and end
// in the meantime.
func (c *conn) wait(timeout time.Duration, work func(ctx context.Context) (then func())) (cancel context.CancelFunc) {
	ctx, cancel := context.WithTimeout(c.ctx, timeout)
	c.spawn(ctx, cancel, work, func() {})
	return cancel
}

// spawn runs work in its own goroutine, and then done and the function that work returned as a job
// of the owner. At the end it cancels the context.
func (c *conn) spawn(ctx context.Context, cancel context.CancelFunc, work func(ctx context.Context) (then func()), done func()) {
	link.Call(&c.tasks, c.owner, func() func() {
		defer cancel()
		return work(ctx)
	}, func(then func(), err error) {
		done()
		if err != nil {
			c.log.Error("panic in an operation of a client: the gateway closes the connection", "err", err)
			c.eng.Close(&wire.Error{Condition: wire.CondInternalError, Description: internalText})
			return
		}
		then()
	})
}

// maxProduct is the number of bytes kept of a client's product name.
const maxProduct = 256

var _ bridges.Census = (*Bridge)(nil)

// Owned implements link.Member.
func (c *conn) Owned() (id string, owner *link.Owner) { return c.id, c.owner }

// Evacuate implements link.Member.
func (c *conn) Evacuate(reason string) { c.drain(reason) }

// Describe implements link.Member.
func (c *conn) Describe() bridges.Connection {
	peer := c.nc.RemoteAddr().String()
	told := bridges.Connection{ID: c.id, Protocol: c.protocol(), Peer: peer, Since: c.since, Namespace: c.identity.Namespace(), Product: c.product, Sessions: c.eng.Sessions(), Policies: c.identity.Policies(), Links: []bridges.Link{}}
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

// protocol returns "amqp", or the protocol that the transport names, such as "amqp over websocket".
func (c *conn) protocol() string {
	if inside, ok := c.nc.(interface{ Protocol() string }); ok {
		return inside.Protocol()
	}
	return "amqp"
}

// productOf reads the client's name for itself from an open frame: its product with the version, as
// SDKs send them, or its container.
func productOf(o *wire.Open) string {
	property := func(name string) string {
		v, _ := o.Properties.Get(name)
		s, _ := text(v)
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
