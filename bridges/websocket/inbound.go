package websocket

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
)

// readBuffers hold frames while they are read and decoded. Idle connections
// have none.
var readBuffers = sync.Pool{New: func() any { return &readBuffer{} }}

type readBuffer struct {
	data    []byte
	members []frame.Member
}

// keptRead is the largest buffer that is used again.
const keptRead = 1 << 20

func (b *readBuffer) free() {
	if cap(b.data) > keptRead {
		return
	}
	clear(b.members)
	b.members = b.members[:0]
	readBuffers.Put(b)
}

// fill reads all of a frame, which may have limit bytes.
func (b *readBuffer) fill(r io.Reader, limit int) error {
	b.data = b.data[:0]
	for {
		if len(b.data) > limit {
			return faulty(closeTooLarge, "A frame may have at most %d bytes.", limit)
		}
		if len(b.data) == cap(b.data) {
			b.data = append(b.data, make([]byte, max(512, len(b.data)))...)[:len(b.data)]
		}
		n, err := r.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// read is the reader: it decodes frames and hands requests to the owner, until
// the connection ends or a frame cannot be answered.
func (c *conn) read() {
	var err error
	for err == nil {
		err = c.readFrame()
	}
	c.mail.Post(func() { c.lose(err) })
	if _, ok := errors.AsType[*fault](err); ok { // the client may go on, until it reads of it
		for {
			if _, _, err := c.ws.NextReader(); err != nil {
				c.mail.Post(func() { c.lose(err) })
				return
			}
		}
	}
}

func (c *conn) readFrame() error {
	kind, r, err := c.ws.NextReader()
	if err != nil {
		return err
	}
	c.heard.Store(time.Now().UnixNano())
	if want := c.frameType(); kind != want {
		return faulty(closeEncoding, "The sub-protocol %s has frames of the other type.", c.ws.Subprotocol())
	}
	b := readBuffers.Get().(*readBuffer)
	defer b.free()
	if err := b.fill(r, int(c.limit.Load())); err != nil {
		return err
	}
	q, err := parse(c.encoding, b)
	if err != nil {
		return err
	}
	select {
	case c.requests <- q:
		return nil
	case <-c.over:
		return errOver
	}
}

var errOver = errors.New("the connection is over")

func (c *conn) frameType() int {
	if c.encoding == frame.MessagePack {
		return websocket.BinaryMessage
	}
	return websocket.TextMessage
}
