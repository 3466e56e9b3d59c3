package websocket

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/internal/codec"
	"github.com/crosstown-mq/crosstown/internal/turn"
)

type intake struct {
	ws      *websocket.Conn // only the reader uses it
	in      *bufio.Reader   // only the reader uses it; ws reads from it
	turn    turn.Turn       // only the reader uses it
	heard   atomic.Int64
	limit   atomic.Int64
	arrived []*request
	pending bool // the reader waits until all requests in arrived have begun
	resumed chan struct{}
	rests   bool // the connection must pause, because a large request was refused: see link.Owner.Rest
}

// readBuffers hold frames while they are read and decoded. Idle connections have none.
var readBuffers = sync.Pool{New: func() any { return &readBuffer{} }}

type readBuffer struct {
	data    []byte
	members []frame.Member
	readers [2]*codec.Reader // by encoding; nil until it is needed
}

func (b *readBuffer) free() {
	if cap(b.data) > frame.Large { // decoded messages may share its memory
		return
	}
	clear(b.members)
	b.members = b.members[:0]
	for _, r := range b.readers {
		if r != nil {
			r.Reset(nil, false)
		}
	}
	readBuffers.Put(b)
}

// The reader passes up to moreRequests requests to the owner together, to share broker calls.
const moreRequests = 64

// read passes requests to the owner until the connection ends, or the client violates the protocol.
// It reads on only when the previous requests have begun: thus all requests that a client writes
// before it disconnects begin before the connection ends.
func (c *conn) read() {
	for {
		got, err := c.readFrames()
		if len(got) > 0 && !c.bring(got) {
			return
		}
		if err == nil {
			continue
		}
		c.Owner.Do(func() { c.disconnected(err) })
		for _, faulty := errors.AsType[*fault](err); faulty; { // the client may send more until it reads the close
			if _, _, err := c.ws.NextReader(); err != nil {
				c.Owner.Do(func() { c.disconnected(err) })
				return
			}
		}
		return
	}
}

func (c *conn) bring(got []*request) bool {
	c.Owner.Do(func() { c.arrived, c.pending = got, true })
	select {
	case <-c.resumed:
		rests := c.rests
		c.rests = false
		return !rests || c.Owner.Rest()
	case <-c.Owner.Ended():
		return false
	}
}

// readFrames waits for a frame, and returns its request and those of the frames that have also
// arrived. An error concerns the frame after those of the returned requests.
func (c *conn) readFrames() (got []*request, err error) {
	for more := true; more && err == nil && len(got) < moreRequests; more = c.limit.Load() > strangerFrame && c.hasNext() {
		var q *request
		if q, err = c.readFrame(); err == nil {
			got = append(got, q)
		}
	}
	return got, err
}

func (c *conn) hasNext() bool {
	if c.in.Buffered() < shortestFrame {
		return false
	}
	_, whole := c.ahead()
	return whole
}

// If this number of bytes is buffered, nextFrame does not block.
const shortestFrame = 10

func (c *conn) readFrame() (*request, error) {
	size, whole := c.ahead()
	kind, r, err := c.ws.NextReader()
	if err != nil {
		return nil, err
	}
	c.heard.Store(time.Now().UnixNano())
	if (kind == websocket.BinaryMessage) != (c.encoding == codec.MessagePack) {
		return nil, faulty(closeEncoding, "The sub-protocol %s does not use frames of this type: JSON is sent as text frames, MessagePack as binary frames.", c.ws.Subprotocol())
	}
	b := readBuffers.Get().(*readBuffer)
	defer b.free()
	if b.data, err = c.gather(r, size, whole, b.data); err != nil {
		return nil, err
	}
	c.turn.Take(len(b.data) / fair.Message)
	defer c.turn.End()
	return parse(c.encoding, b, c.afford)
}

// ahead waits for the next message. It returns the size of its first frame, or -1 if that is not
// known, and whether the whole frame has arrived.
func (c *conn) ahead() (size int64, whole bool) {
	first, size, whole := nextFrame(c.in)
	if first != opText && first != opBinary {
		return -1, false // NextReader handles errors and control frames
	}
	return size, whole
}

// nextFrame waits for the head of a frame, and returns its first byte, or 0 after an error, and the
// size of the payload. whole is true if the whole frame has arrived.
func nextFrame(in *bufio.Reader) (first byte, size int64, whole bool) {
	const mask = 4
	b, err := in.Peek(2)
	if err != nil {
		return 0, 0, false
	}
	head, _ := frameHead(b)
	if b, err = in.Peek(head); err != nil {
		return 0, 0, false
	}
	_, size = frameHead(b)
	return b[0], size, int64(in.Buffered()-head-mask) >= size
}

// frameHead returns the number of bytes in the head of a frame, without a mask, and in its payload.
// b begins with the frame; the first two bytes suffice for the head.
func frameHead(b []byte) (head int, payload int64) {
	const masked = 0x80
	var h [10]byte
	copy(h[:], b)
	switch n := h[1] &^ masked; n {
	case 126:
		return 4, int64(binary.BigEndian.Uint16(h[2:]))
	case 127:
		return 10, int64(binary.BigEndian.Uint64(h[2:]) & math.MaxInt64)
	default:
		return 2, int64(n)
	}
}

// gather reads a message into buffer, or a larger one. size is the message's size, or -1 if
// unknown. whole is true if all bytes have arrived. The budget counts the message until it is
// answered.
func (c *conn) gather(r io.Reader, size int64, whole bool, buffer []byte) ([]byte, error) {
	limit := c.limit.Load()
	a := fair.Arrival{Reader: hearing{c, r}, Size: size, Limit: limit, Buffer: buffer, Control: true}
	if !whole {
		a.Deadline = c.ws.SetReadDeadline
		defer func() { _ = c.ws.SetReadDeadline(time.Time{}) }() // between messages, pings find out whether the client has disconnected
	}
	if limit > strangerFrame {
		a.Inspect = func(start []byte) (most int64, err error) {
			limit, err = c.frameLimit(start)
			return limit, err
		}
	}
	data, err := c.Memory.Gather(c.Calls.Ctx, a)
	switch {
	case err == nil:
		return data, nil
	case errors.Is(err, fair.ErrTooLarge):
		return nil, faulty(closeTooLarge, "A frame may have at most %d bytes.", limit)
	case errors.Is(err, fair.ErrTooSlow):
		return nil, faulty(closeTooSlow, "The rest of a frame did not arrive in time.")
	case core.CodeOf(err) == core.Busy, core.CodeOf(err) == core.QuotaExceeded:
		return nil, faulty(closeBusy, "%s", core.TextOf(err))
	}
	return nil, err
}

// afford takes n bytes from the budget for the messages of a request, even a small frame of which
// may contain many. It waits until the gateway has time to decode them.
func (c *conn) afford(n int64) error {
	if !c.Memory.Take(n) {
		return c.Memory.Refuse(n)
	}
	c.turn.Take(int(n / fair.Message))
	return nil
}

type hearing struct {
	conn *conn
	r    io.Reader
}

func (h hearing) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if n > 0 {
		h.conn.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

// frameLimit returns the largest size of a frame that begins with start: messagesOfFrame times the
// largest message of the entity in start, at least minFrame and at most Options.MaxFrame.
func (c *conn) frameLimit(start []byte) (int64, error) {
	var address core.Address
	var feed int64
	r := frame.NewReader(c.encoding)
	for _, m := range frame.Start(r, start) {
		r.Reset(m.Value, true)
		switch {
		case m.Key == "entity" && r.Kind() == codec.Text:
			address = core.At(string(r.Text()))
		case m.Key == "feed" && r.Kind() == codec.Int:
			feed = r.Int()
		}
	}
	asked := make(chan struct{})
	var id core.Identity
	c.Owner.Do(func() {
		id = c.Identity
		if f := c.feeds[feed]; f != nil && address == (core.Address{}) {
			address = f.address
		}
		close(asked)
	})
	select {
	case <-asked:
	case <-c.Owner.Ended():
		return 0, errOver
	}
	if address == (core.Address{}) {
		return minFrame, nil
	}
	e, err := c.bridge.front.Resolve(c.Calls.Ctx, id, address)
	if err != nil { // the request itself will be refused with this error
		return minFrame, nil
	}
	return min(int64(c.bridge.opts.MaxFrame), max(minFrame, messagesOfFrame*int64(e.Settings.MaxMessageSizeInKilobytes)<<10)), nil
}

// messagesOfFrame is the largest size of a frame, as a multiple of the largest message. That is
// enough for one message in which every character is escaped, or for several in base64.
const messagesOfFrame = 8

var errOver = errors.New("the connection has ended")
