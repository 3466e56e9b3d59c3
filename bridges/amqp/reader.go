package amqp

import (
	"encoding/binary"
	"net"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
)

// firstBuffer is the size of a read buffer in bytes to begin with; busy connections get up to largeBuffer.
const (
	firstBuffer = 4 << 10
	largeBuffer = 64 << 10
)

// reader reads a connection into two buffers, of which the owner works through one while the other is filled.
type reader struct {
	nc       net.Conn
	maxFrame uint32
	chunks   chan []byte // whole frames; closed at the end of the stream
	free     chan []byte // buffers that the owner gives back
	stop     chan struct{}
	err      error // why the stream ended; set before chunks is closed
}

func newReader(nc net.Conn, maxFrame uint32) *reader {
	r := &reader{nc: nc, maxFrame: maxFrame, chunks: make(chan []byte), free: make(chan []byte, 2), stop: make(chan struct{})}
	r.free <- make([]byte, firstBuffer)
	return r
}

func (r *reader) run() {
	defer close(r.chunks)
	buf, n := make([]byte, firstBuffer), 0
	for {
		if n == len(buf) { // a frame larger than the buffer
			buf = append(buf, make([]byte, len(buf))...)
		}
		k, err := r.nc.Read(buf[n:])
		n += k
		if whole := wholeFrames(buf[:n], r.maxFrame); whole > 0 {
			next, ok := r.hand(buf[:whole], n == len(buf))
			if !ok {
				return
			}
			if len(next) < n-whole {
				next = make([]byte, len(buf))
			}
			n = copy(next, buf[whole:n])
			buf = next
		}
		if err != nil {
			r.err = err
			return
		}
	}
}

// hand gives a chunk to the owner and returns the other buffer, a larger one if this one was full.
func (r *reader) hand(chunk []byte, full bool) (next []byte, ok bool) {
	select {
	case r.chunks <- chunk:
	case <-r.stop:
		return nil, false
	}
	select {
	case next = <-r.free:
	case <-r.stop:
		return nil, false
	}
	next = next[:cap(next)]
	if full && len(next) < largeBuffer {
		next = make([]byte, 2*len(next))
	}
	return next, true
}

// wholeFrames returns how many bytes of b are protocol headers and whole frames. What cannot be a frame counts as one,
// so that it is refused.
func wholeFrames(b []byte, maxFrame uint32) int {
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
			break
		}
		n += int(size)
	}
	return n
}
