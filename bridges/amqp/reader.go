package amqp

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
)

// intake is what was read and what is read next.
type intake struct {
	arrival arrival       // what was read and is not yet taken by the engine
	pending bool          // the reader waits until arrival is taken and more may be read
	resumed chan struct{} // lets the reader continue
	next    next          // for the next read
}

const (
	// firstBuffer is the size of a read buffer in bytes to begin with; busy connections get up to largeBuffer.
	firstBuffer = 4 << 10
	largeBuffer = 64 << 10
	// behindBody is the largest number of bytes after the end of a large body that are read
	// together with it. They are copied if another large body begins there.
	behindBody = 4 << 10
)

// arrival is the result of one read.
type arrival struct {
	filled int    // bytes that went into next.into
	chunk  []byte // the other bytes
}

func (a *arrival) taken() bool { return a.filled == 0 && a.chunk == nil }

// next says how to read on.
type next struct {
	untaken int    // bytes of the chunk that belong to an incomplete frame
	into    []byte // where the next bytes go; see engine.Conn.Into
}

// read passes what the client sends to the owner until the transport or the connection ends. It
// reads again when the engine has consumed the bytes, so one buffer is enough.
func (c *conn) read() {
	in := input{nc: c.nc, known: &c.known, socket: socketReaderOf(c.nc)}
	var got arrival
	arrived := func() {
		c.arrival, c.pending = got, true
		c.next.into = nil // the message may be done before the reader continues
	}
	for {
		filled, err := in.read(c.next.into)
		got = arrival{filled, in.buf[:presentable(in.buf[:in.n], c.bridge.opts.MaxFrameSize)]}
		if filled > 0 || len(got.chunk) > 0 {
			c.owner.Do(arrived)
			select {
			case <-c.resumed:
			case <-c.owner.Ended():
				return
			}
			in.take(len(got.chunk) - c.next.untaken)
		}
		if err != nil {
			c.owner.Do(func() { c.disconnected(err) })
			return
		}
	}
}

// presentable returns how many bytes of b are of use for the engine: protocol headers, whole frames, and the beginning of a
// large frame. What cannot be a frame counts as one, so that it is refused.
func presentable(b []byte, maxFrame uint32) int {
	n := 0
	for len(b)-n >= 4 {
		size := binary.BigEndian.Uint32(b[n:])
		switch {
		case string(b[n:n+4]) == "AMQP":
			size = wire.ProtocolHeaderSize
		case size < wire.ProtocolHeaderSize || size > maxFrame:
			return len(b)
		}
		if int64(size) > int64(len(b)-n) {
			if size >= engine.LargeFrame && len(b)-n >= engine.LeastBegun {
				return len(b)
			}
			break
		}
		n += int(size)
	}
	return n
}

// input reads from the transport.
type input struct {
	nc     net.Conn
	known  *atomic.Bool  // the client has a proven identity; until then the listener counts what it sends, in Read
	socket *socketReader // nil if the transport is not a plain TCP connection

	buf      []byte
	n        int                // bytes of buf that are read and not yet taken
	borrowed *[largeBuffer]byte // the buffer of which buf is a part, if it comes from buffers
	large    bool               // the last bytes were of a large body
}

// buffers holds buffers for sockets that have bytes to read. A connection that waits has none.
var buffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}

// read reads once, into the slice given and then after the bytes in buf. It returns how many filled the slice.
func (in *input) read(into []byte) (filled int, err error) {
	if in.n > 0 && in.n == len(in.buf) { // a frame larger than the buffer
		in.move(make([]byte, 2*len(in.buf)), in.buf)
	}
	switch {
	case in.direct():
		filled, err = in.socket.read(into, in)
		in.large = filled > 0
		return filled, err
	case len(into) > 0:
		return in.nc.Read(into)
	case in.buf == nil:
		in.buf = make([]byte, firstBuffer)
	}
	k, err := in.nc.Read(in.buf[in.n:])
	in.n += k
	return 0, err
}

// direct reports whether reads use socket instead of nc.
func (in *input) direct() bool { return in.socket != nil && in.known.Load() }

// take removes the first k bytes from buf, and adapts the size of buf to its use.
func (in *input) take(k int) {
	rest, size := in.buf[k:in.n], len(in.buf)
	switch {
	case in.direct() && len(rest) == 0:
		in.release()
	case in.direct() && in.borrowed == nil && len(rest) < largeBuffer:
		in.borrow(rest)
	case in.n == size && size < largeBuffer || size > largeBuffer && len(rest) < largeBuffer:
		in.move(make([]byte, min(2*size, largeBuffer)), rest)
	default:
		in.n = copy(in.buf, rest)
	}
}

// move replaces buf by the buffer to, and copies rest, the bytes not yet taken, there.
func (in *input) move(to, rest []byte) {
	n := copy(to, rest)
	in.release()
	in.buf, in.n = to, n
}

// borrow replaces buf by a buffer from buffers.
func (in *input) borrow(rest []byte) {
	b := buffers.Get().(*[largeBuffer]byte)
	in.move(b[:], rest)
	in.borrowed = b
}

// release gives up the buffer.
func (in *input) release() {
	if in.borrowed != nil {
		buffers.Put(in.borrowed)
	}
	in.buf, in.n, in.borrowed = nil, 0, nil
}
