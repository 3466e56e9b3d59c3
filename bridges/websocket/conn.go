package websocket

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/budget"
	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// maxProduct is how much of what a client calls itself is kept.
const maxProduct = 200

// conn is one connection. Its fields belong to the jobs of its owner except where a
// comment says otherwise. gorilla/websocket reads; the gateway's own frames are
// written many at a time, which it cannot do.
type conn struct {
	bridge   *Bridge // shared; not changed
	id       string  // not changed
	log      *slog.Logger
	refusals *refusals.Share
	ws       *websocket.Conn // the reader's
	in       *bufio.Reader   // what ws reads through; the reader's
	memory   *budget.Waiter  // for all goroutines
	nc       net.Conn        // below ws
	socket   *link.Socket    // of nc; nil: it is no plain TCP connection
	encoding codec.Encoding  // not changed
	heard    atomic.Int64    // when the client last said something, Unix nanoseconds
	limit    atomic.Int64    // bytes of a frame
	owner    *link.Owner     // runs what the reader, writes, broker calls and timers bring
	tasks    sync.WaitGroup  // writer and broker calls

	arrived []*request    // read, and not begun
	pending bool          // the reader waits until they are
	resumed chan struct{} // has the reader go on

	ctx    context.Context // of broker calls
	cancel context.CancelFunc

	since   time.Time
	product string
	hosts   []string // by which the client called us; not changed

	underWay map[int64]struct{} // requests by their ids
	held     int                // bytes of them
	charged  int                // bytes of what goes to the client that memory counts
	starved  bool               // feeds would ask for deliveries if there were memory
	busy     int                // broker calls under way

	out     []byte // frames to be written
	writing int    // bytes that the writer has
	choked  bool   // too much waits to be read: no more deliveries are asked for
	said    bool   // our close is sent
	broken  bool   // nothing can be written any more; what the client has written before is read
	gone    bool   // nothing is read any more
	lost    error  // why the connection ended

	timer    *link.Timer
	ping     time.Time // when to ping
	pinged   pinging   // how far the last ping has come
	pong     time.Time // until when the client must have said something; zero: nothing is awaited
	stalled  bool      // nothing was read of late
	deadline time.Time // when to stop waiting: for auth, the client's close, or what is under way
	drains   bool      // the bridge is stopping

	identity core.Identity
	leave    func()    // ends being counted in the identity's namespace; nil: it is not
	proving  bool      // a token is being verified: nothing else is read
	refused  int       // tokens
	expires  time.Time // when to look at identity again; zero: never
	warned   time.Time // the end that the client was told of

	feeds        map[int64]*feed
	sendQueues   map[string]*sendQueue   // by folded address
	sends        []*sendQueue            // with messages to send
	settleQueues map[string]*settleQueue // settlements by folded address
	full         []*settleQueue          // with something in them
	waiting      int                     // bytes of deliveries that wait to be written
}

// pinging says how far a ping has come on its way.
type pinging uint8

const (
	noPing     pinging = iota
	pingWaits          // in out
	pingLeaves         // the writer has it
)

func newConn(b *Bridge, ws *websocket.Conn, in *bufio.Reader, e codec.Encoding, r *http.Request) *conn {
	now := time.Now()
	c := &conn{
		bridge: b, id: refusals.NewID(), refusals: b.refusals.Share(), ws: ws, in: in, nc: ws.NetConn(), socket: link.SocketOf(ws.NetConn()), encoding: e, since: now, hosts: bridges.Hosts(r),
		resumed:  make(chan struct{}, 1),
		ping:     now.Add(b.opts.PingInterval),
		deadline: now.Add(b.opts.AuthTimeout),
	}
	c.limit.Store(strangerFrame)
	c.owner = link.New(c.pass, c.fail)
	c.memory = b.opts.Budget.Waiter(func() { c.owner.Post(func() {}) })
	c.timer = link.NewTimer(c.owner)
	c.log = b.opts.Logger.With("conn", c.id, "peer", r.RemoteAddr)
	c.log.Debug("connection opened", "protocol", ws.Subprotocol())
	if c.product = r.UserAgent(); len(c.product) > maxProduct {
		c.product = c.product[:maxProduct]
	}
	peer := core.WithPeer(core.WithHosts(context.Background(), c.hosts), bridges.Peer("websocket", r.RemoteAddr, c.product))
	c.ctx, c.cancel = context.WithCancel(peer)
	ws.SetPingHandler(func(data string) error {
		c.heard.Store(time.Now().UnixNano())
		c.owner.Do(func() { c.control(opPong, data) })
		return nil
	})
	ws.SetPongHandler(func(string) error {
		c.heard.Store(time.Now().UnixNano())
		return nil
	})
	ws.SetCloseHandler(func(int, string) error { return nil }) // the owner answers
	return c
}

// run reads until the connection is over and what it had under way is done, or has had its time.
func (c *conn) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { c.owner.Post(c.drain) })
	defer stop()
	c.owner.Do(func() {}) // which sets the timer
	c.readAll()
	<-c.owner.Ended()
	return c.lost
}

// readAll is read, and ends the connection where that panics.
func (c *conn) readAll() {
	defer func() {
		if r := recover(); r != nil {
			stack := debug.Stack()
			c.owner.Do(func() { panic(fmt.Sprintf("reader: %v\n%s", r, stack)) })
		}
	}()
	c.read()
}

// fail ends the connection because a job panicked.
func (c *conn) fail(err error) {
	c.log.Error("connection", "err", err)
	_ = c.nc.SetWriteDeadline(time.Now().Add(closeGrace))
	_, _ = c.nc.Write(appendClose(nil, closeInternal, texts[core.Internal])) // if no frame is half written
	_ = c.nc.Close()                                                         // which ends the reader
}

// mayBegin reports whether the connection begins further requests; else it has enough to do.
func (c *conn) mayBegin() bool {
	return !c.proving && len(c.underWay) < maxRequests && c.held <= c.bridge.opts.MaxUnderWay && len(c.out)+c.writing <= 2*maxWaiting
}

// pass does all that can be done now. It runs after the jobs at hand. When the socket has taken what
// there was to say, more may be possible.
func (c *conn) pass() {
	for c.step(time.Now()) {
	}
	if c.pending && len(c.arrived) == 0 && (c.said || c.mayBegin()) {
		c.pending = false
		c.resumed <- struct{}{} // has room: the reader waits for one
	}
	if c.ended(time.Now()) {
		c.owner.Stop()
		_ = c.nc.Close()
	}
}

// step does what can be done now. It reports whether that has made room for more.
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
	c.memory.Add(int64(unread - c.charged))
	c.charged = unread
	return again
}

// begin carries out a request, or starts to.
func (c *conn) begin(q *request) {
	if c.said {
		return
	}
	if _, twice := c.underWay[q.id]; twice {
		c.close(closeNoID, fmt.Sprintf("The request %d is under way already.", q.id))
		return
	}
	if c.underWay == nil {
		c.underWay = make(map[int64]struct{})
	}
	c.underWay[q.id] = struct{}{}
	c.held += q.bytes
	switch {
	case len(c.identity) == 0 && (q.op == nil || q.op.name != "auth"):
		c.close(closeNotSignedIn, "The first frame must be auth.")
	case q.wrong != nil:
		c.refuse(q, q.wrong)
	default:
		q.op.run(c, q)
	}
}

// answer tells that a request was carried out, with what more there is to say.
func (c *conn) answer(q *request, more func(w codec.Writer)) {
	c.finish(q)
	c.tell("ok", func(w codec.Writer) {
		w.Key("id")
		w.Int(q.id)
		if more != nil {
			more(w)
		}
	})
}

// refuse tells why a request was not carried out.
func (c *conn) refuse(q *request, err error) {
	c.finish(q)
	c.tell("error", func(w codec.Writer) {
		w.Key("id")
		w.Int(q.id)
		c.writeError(w, err, q.entity, q.about()...)
	})
}

// about is what the log says of a request: its own id, what it asks for, and the
// number of its feed.
func (q *request) about() []any {
	about := []any{"request", q.id}
	if q.op != nil {
		about = append(about, "operation", q.op.name)
	}
	if q.given.has(hasFeed) {
		about = append(about, "link", q.feed)
	}
	return about
}

// conclude answers or refuses.
func (c *conn) conclude(q *request, err error, more func(w codec.Writer)) {
	if err != nil {
		c.refuse(q, err)
		return
	}
	c.answer(q, more)
}

func (c *conn) finish(q *request) {
	delete(c.underWay, q.id)
	c.held -= q.bytes
	c.memory.Add(-int64(q.bytes))
}

// tell sends a frame.
func (c *conn) tell(op string, more func(w codec.Writer)) {
	if c.said || c.broken || c.lost != nil {
		return
	}
	if c.out == nil {
		c.out = takeBuffer()
	}
	out, mark := openFrame(c.out)
	w := codec.NewWriter(c.encoding, out)
	w.OpenMap()
	w.Key("op")
	w.Text(op)
	if more != nil {
		more(w)
	}
	w.CloseMap()
	opcode := byte(opText)
	if c.encoding == codec.MessagePack {
		opcode = opBinary
	}
	c.out = closeFrame(w.Bytes(), mark, opcode)
	c.choked = c.choked || len(c.out)+c.writing > maxWaiting
}

func (c *conn) control(opcode byte, payload string) {
	if !c.said && !c.broken && c.lost == nil && len(c.out) <= maxWaiting { // else the client has something to read first
		c.out = appendControl(c.out, opcode, payload)
	}
}

// close says goodbye. The client has closeGrace to answer.
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

// write writes what there is to say: at once as far as the transport takes it, the rest in a goroutine
// of its own. It reports whether all of it has been written.
func (c *conn) write() bool {
	if c.writing > 0 || len(c.out) == 0 {
		return false
	}
	buf, done := c.out, 0
	c.out = nil
	c.writing = len(buf)
	if c.pinged == pingWaits {
		c.pinged = pingLeaves
	}
	if c.socket != nil {
		var err error
		if done, err = c.socket.Write([][]byte{buf}, false); err != nil || done == len(buf) {
			c.wrote(buf, err)
			return err == nil
		}
	}
	link.Go(&c.tasks, func() {
		err := transmit(c.nc, buf, done, c.bridge.opts.WriteTimeout)
		c.owner.Do(func() { c.wrote(buf, err) })
	})
	return false
}

func (c *conn) wrote(buf []byte, err error) {
	c.writing = 0
	giveBuffer(buf)
	if c.pinged == pingLeaves {
		c.pinged, c.pong = noPing, time.Now().Add(c.bridge.opts.PingInterval)
	}
	switch {
	case errors.Is(err, errSlow):
		c.said = true
		c.disconnected(err)
		c.out = nil
		_ = c.nc.Close() // which ends the reader
	case err != nil:
		c.broken, c.out = true, nil
		c.deadline = time.Now().Add(c.bridge.opts.DrainGrace)
	}
	if c.choked && len(c.out) <= maxWaiting/2 {
		c.choked = false
		c.askAll()
	}
}

// disconnected notes that nothing more can be read, and why. Answers under way are still written, if
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

// drain says that the gateway is stopping. Feeds take nothing more; what is
// under way is answered.
func (c *conn) drain() {
	c.drains = true
	if c.said {
		return
	}
	c.tell("bye", nil)
	for _, f := range c.feeds {
		f.quiet()
	}
	c.deadline = time.Now().Add(c.bridge.opts.DrainGrace)
}

// tick does what is due, and sets the timer for what is due next.
func (c *conn) tick(now time.Time) {
	switch {
	case c.gone:
	case c.said || c.broken:
		if !now.Before(c.deadline) {
			_ = c.nc.Close() // which ends the reader
		}
	case c.drains:
		if len(c.underWay) == 0 && c.writing == 0 && len(c.out) == 0 || !now.Before(c.deadline) {
			c.close(closeStopping, stoppingText)
		}
	case len(c.identity) == 0 && !c.proving && !now.Before(c.deadline):
		c.close(closeNotSignedIn, "No auth came in time.")
	case len(c.identity) > 0:
		c.timer.Arm(c.checkIdentity(now))
	}
	if !c.said && !c.broken {
		c.timer.Arm(c.heartbeat(now))
	}
	if len(c.identity) == 0 || c.said || c.broken || c.drains {
		c.timer.Arm(later(c.deadline, now))
	}
}

// later is at, or a little after now if it has passed: then another goroutine is at work.
func later(at, now time.Time) time.Time {
	if at.After(now) {
		return at
	}
	return now.Add(time.Second)
}

// heartbeat pings, and closes a connection whose client does not answer. The
// time for that begins when the ping is written: much may go before it. It
// returns when something is due next.
func (c *conn) heartbeat(now time.Time) time.Time {
	interval := c.bridge.opts.PingInterval
	defer func() { c.stalled = c.pending }()
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

// ended reports whether the connection has ended and nothing is left to do.
func (c *conn) ended(now time.Time) bool {
	if !c.gone {
		return false
	}
	return c.busy == 0 && c.writing == 0 && len(c.out) == 0 || !now.Before(c.deadline)
}

// leaves reports whether the client gets nothing more.
func (c *conn) leaves() bool { return c.said || c.broken }

// letGo has everything go that the connection holds.
func (c *conn) letGo() {
	for _, f := range c.feeds {
		f.drop()
	}
	for _, o := range c.sendQueues {
		o.drop()
	}
}

// dispose ends what belongs to the connection, which is over, and waits for it.
func (c *conn) dispose() {
	c.gone, c.said = true, true
	c.cancel()
	c.timer.Stop()
	_ = c.nc.Close()
	c.finishTasks()
	c.memory.Close()
	if c.leave != nil {
		c.leave()
	}
}

// finishTasks ends what the connection holds. Calls that outlived it may have opened something as well.
func (c *conn) finishTasks() {
	defer func() {
		if r := recover(); r != nil { // a panic may be why the connection ended
			c.log.Error("connection", "err", r, "stack", string(debug.Stack()))
		}
	}()
	c.letGo()
	for c.tasks.Wait(); c.owner.Finish(); c.tasks.Wait() {
		c.letGo()
	}
}

// async runs work in a goroutine of its own, and then what it returns as a job of the owner.
func (c *conn) async(work func(ctx context.Context) (then func())) {
	c.spawn(operationTimeout, work)
}

// spawn is async with a time-out.
func (c *conn) spawn(timeout time.Duration, work func(ctx context.Context) (then func())) (cancel context.CancelFunc) {
	c.busy++
	ctx, cancel := context.WithTimeout(c.ctx, timeout)
	link.Call(&c.tasks, c.owner, func() func() {
		defer cancel()
		return work(ctx)
	}, func(then func(), err error) {
		c.busy--
		if err != nil {
			c.log.Error("broker call", "err", err)
			c.close(closeInternal, texts[core.Internal])
			return
		}
		then()
	})
	return cancel
}

// call carries out a request outside the owner. work returns what there is to
// say besides ok.
func (c *conn) call(q *request, work func(ctx context.Context, id core.Identity) (func(codec.Writer), error)) {
	id := c.identity
	c.async(func(ctx context.Context) func() {
		more, err := work(ctx, id)
		return func() { c.conclude(q, err, more) }
	})
}

// describe is what others may know of the connection.
func (c *conn) describe() bridges.Connection {
	about := bridges.Connection{ID: c.id, Protocol: "websocket", Peer: c.nc.RemoteAddr().String(), Since: c.since, Namespace: c.identity.Namespace(), Product: c.product}
	seen := map[string]bool{}
	for _, g := range c.identity {
		if !seen[g.Policy] {
			seen[g.Policy] = true
			about.Policies = append(about.Policies, g.Policy)
		}
	}
	for _, f := range c.feeds {
		link := bridges.Link{Entity: f.entity, Receives: true, Deletes: f.mode == core.ReceiveAndDelete}
		if f.held != nil {
			link.Holds, link.Session = true, f.held.ID()
		}
		about.Links = append(about.Links, link)
	}
	for _, o := range c.sendQueues {
		about.Links = append(about.Links, bridges.Link{Entity: o.entity})
	}
	return about
}
