package amqp

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
)

type intake struct {
	arrival arrival // bytes that the engine has not taken yet
	pending bool    // the reader waits until the engine has taken arrival and may continue
	resumed chan struct{}
	next    next
}

const (
	// firstBuffer is the size in bytes of the first read buffer. Busy connections use largeBuffer.
	firstBuffer = 4 << 10
	largeBuffer = 64 << 10
	// behindBody bounds the bytes read together with the end of a large body: they must be copied
	// if they belong to the next large body.
	behindBody = 4 << 10
)

type arrival struct {
	filled int    // bytes that were read into next.into
	chunk  []byte // other bytes that were read
}

func (a *arrival) taken() bool { return a.filled == 0 && a.chunk == nil }

type next struct {
	untaken int    // bytes at the end of the chunk that the engine has not taken
	into    []byte // memory for the next bytes; see engine.Conn.Into
	rests   bool   // a batch was refused: see link.Owner.Rest
}

// read reads again only when the engine has taken the bytes, so one buffer is enough.
func (c *conn) read() {
	in := input{nc: c.NC, known: &c.known, socket: socketReaderOf(c.NC)}
	var got arrival
	arrived := func() {
		c.arrival, c.pending = got, true
		c.next.into = nil // dropped, because the message may be complete before the reader continues
	}
	for {
		filled, err := in.read(c.next.into)
		got = arrival{filled, in.buf[:presentable(in.buf[:in.n], c.bridge.opts.MaxFrameSize)]}
		if filled > 0 || len(got.chunk) > 0 {
			c.Owner.Do(arrived)
			select {
			case <-c.resumed:
			case <-c.Owner.Ended():
				return
			}
			in.take(len(got.chunk) - c.next.untaken)
			if c.next.rests {
				if c.next.rests = false; !c.Owner.Rest() {
					return
				}
			}
		}
		if err != nil {
			c.Owner.Do(func() { c.disconnected(err) })
			return
		}
	}
}

// presentable returns how many bytes of b the engine can take: protocol headers, whole frames, and
// the beginning of a large frame. Bytes that cannot be a frame count, too: the engine refuses them.
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

type input struct {
	nc     net.Conn
	known  *atomic.Bool  // the client has a proven identity; until then reads must go through nc, where the listener counts them
	socket *socketReader // nil if the transport is not a plain TCP connection

	buf      []byte
	n        int                // bytes in buf that the engine has not taken
	borrowed *[largeBuffer]byte // the array from buffers that buf is a part of, or nil
	large    bool               // the last bytes belonged to a large body
}

var buffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}

// read reads once, first into the slice into, then, if that is full, into buf. filled is the number
// of bytes in the slice into.
func (in *input) read(into []byte) (filled int, err error) {
	if in.n > 0 && in.n == len(in.buf) { // the frame is larger than the buffer
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

func (in *input) direct() bool { return in.socket != nil && in.known.Load() }

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

func (in *input) move(to, rest []byte) {
	n := copy(to, rest)
	in.release()
	in.buf, in.n = to, n
}

func (in *input) borrow(rest []byte) {
	b := buffers.Get().(*[largeBuffer]byte)
	in.move(b[:], rest)
	in.borrowed = b
}

func (in *input) release() {
	if in.borrowed != nil {
		buffers.Put(in.borrowed)
	}
	in.buf, in.n, in.borrowed = nil, 0, nil
}
