package websocket

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// conn is one connection. Except where noted, only jobs of its owner (package link) use its fields.
// The bridge reads with gorilla/websocket but writes frames itself, to send several in one call.
type conn struct {
	link.Conn
	bridge   *Bridge // any goroutine may use it, because it never changes
	encoding codec.Encoding

	intake
	output
	heartbeat
	client
	backlog
	holdings
	ending
}

type backlog struct {
	feeds        map[int64]*feed
	sendQueues   map[string]*sendQueue
	sends        []*sendQueue
	settleQueues map[string]*settleQueue
	full         []*settleQueue
}

type holdings struct {
	underWay map[int64]struct{}
	held     int // bytes of the requests in underWay
	waiting  int
	charged  int  // bytes of output and deliveries that are charged to memory
	starved  bool // feeds could not request messages for lack of memory
}

func newConn(b *Bridge, ws *websocket.Conn, in *bufio.Reader, e codec.Encoding, r *http.Request) *conn {
	now := time.Now()
	c := &conn{bridge: b, encoding: e}
	c.Open(&b.shared, ws.NetConn(), c)
	c.intake = intake{ws: ws, in: in, resumed: make(chan struct{}, 1)}
	c.hosts = bridges.Hosts(r)
	c.socket = link.SocketOf(c.NC)
	c.ping = now.Add(b.opts.PingInterval)
	c.deadline = now.Add(authTimeout)
	c.limit.Store(strangerFrame)
	c.Log.Debug("connection opened", "protocol", ws.Subprotocol())
	c.Product = bridges.Product(r)
	peer := core.WithPeer(core.WithHosts(c.Calls.Ctx, c.hosts), bridges.Peer("websocket", r.RemoteAddr, c.Product))
	c.Calls.Ctx = bridges.Certified(peer, r.TLS)
	ws.SetPingHandler(func(data string) error {
		c.heard.Store(time.Now().UnixNano())
		c.Owner.Do(func() { c.control(opPong, data) })
		return nil
	})
	ws.SetPongHandler(func(string) error {
		c.heard.Store(time.Now().UnixNano())
		return nil
	})
	ws.SetCloseHandler(func(int, string) error { return nil }) // the owner answers a close
	return c
}

// run reads until the connection ends. It returns when the calls in flight have ended or timed out.
func (c *conn) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { c.Owner.Post(func() { c.drain(&fault{closeStopping, stoppingText}) }) })
	defer stop()
	c.Owner.Do(func() {})
	c.readAll()
	<-c.Owner.Ended()
	return c.lost
}

// readAll calls read. If read panics, the owner gets the panic and ends the connection.
func (c *conn) readAll() {
	defer func() {
		if r := recover(); r != nil {
			stack := debug.Stack()
			c.Owner.Do(func() { panic(fmt.Sprintf("reader: %v\n%s", r, stack)) })
		}
	}()
	c.read()
}

// Pass runs after the queued jobs. It begins the requests, sends, deliveries and writes that are
// now possible. It repeats this when the socket has taken all output, because more may be possible.
func (c *conn) Pass() {
	for c.step(time.Now()) {
	}
	if c.pending && len(c.arrived) == 0 && (c.said || c.mayBegin()) {
		c.pending = false
		c.resumed <- struct{}{} // does not block: the reader is waiting for it
	}
	if c.ended(time.Now()) {
		c.Owner.Stop()
		_ = c.NC.Close()
	}
}

func (c *conn) step(now time.Time) (again bool) {
	for len(c.arrived) > 0 && (c.said || c.mayBegin()) {
		q := c.arrived[0]
		c.arrived[0], c.arrived = nil, c.arrived[1:]
		c.begin(q)
	}
	if c.starved {
		c.starved = false
		c.askAll()
	}
	c.deliverMore()
	for _, o := range c.sends {
		o.start()
	}
	c.sends = c.sends[:0]
	for _, p := range c.full {
		p.start()
	}
	c.full = c.full[:0]
	c.tick(now)
	again = c.write()
	unread := c.waiting + len(c.out) + c.writing
	c.Memory.Add(int64(unread - c.charged))
	c.charged = unread
	return again
}

func (c *conn) tick(now time.Time) {
	switch {
	case c.gone:
	case c.said || c.broken:
		if !now.Before(c.deadline) {
			_ = c.NC.Close() // ends the reader
		}
	case c.drains != nil:
		if len(c.underWay) == 0 && c.writing == 0 && len(c.out) == 0 || !now.Before(c.deadline) {
			c.close(c.drains.code, c.drains.text)
		}
	case len(c.Identity) == 0 && !c.proving && !now.Before(c.deadline):
		c.close(closeNotSignedIn, "The client did not send an auth frame in time.")
	case len(c.Identity) > 0:
		c.Timer.Arm(c.checkIdentity(now))
	}
	if !c.said && !c.broken {
		c.Timer.Arm(c.beat(now))
	}
	if len(c.Identity) == 0 || c.said || c.broken || c.drains != nil {
		at := c.deadline
		if !at.After(now) { // the deadline is over, but a goroutine of the connection is still running
			at = now.Add(time.Second)
		}
		c.Timer.Arm(at)
	}
}

func (c *conn) Panicked() { c.close(closeInternal, refusals.Text(core.Internal)) }

func (c *conn) Evacuate(reason string) { c.drain(&fault{closeForced, reason}) }

func (c *conn) Describe() bridges.Connection {
	about := c.About("websocket")
	for _, f := range c.feeds {
		about.Links = append(about.Links, bridges.Receiving(f.address.String(), f.mode, f.held))
	}
	for _, o := range c.sendQueues {
		about.Links = append(about.Links, bridges.Link{Entity: o.address.String(), Direction: bridges.Sends})
	}
	return about
}

type heartbeat struct {
	ping    time.Time
	pinged  pinging
	pong    time.Time // when the client must have answered the last ping; zero if it has
	stalled bool
}

type pinging uint8

const (
	noPing     pinging = iota
	pingWaits          // the ping is in conn.out
	pingLeaves         // the writer has the ping
)

// beat sends pings, and closes a connection whose client does not answer. The client's time begins
// when a ping is written, because much output may precede it. beat returns its next time to run.
func (c *conn) beat(now time.Time) time.Time {
	interval := c.bridge.opts.PingInterval
	defer func() { c.stalled = len(c.arrived) > 0 || c.pending && !c.mayBegin() }()
	if !c.pong.IsZero() {
		switch {
		case c.heard.Load() >= c.pong.Add(-interval).UnixNano():
			c.pong = time.Time{}
		case c.stalled: // the gateway did not read from the client, so its answer may be waiting
			c.pong = now.Add(interval)
		case !now.Before(c.pong):
			c.close(closeTooSlow, "The client did not answer a ping.")
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
	if !c.pong.IsZero() && c.pong.Before(c.ping) {
		return c.pong
	}
	return c.ping
}
