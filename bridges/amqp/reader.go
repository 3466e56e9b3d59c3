package amqp

import (
	"encoding/binary"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
)

// firstBuffer is the size of a read buffer in bytes to begin with; busy connections get up to largeBuffer.
const (
	firstBuffer = 4 << 10
	largeBuffer = 64 << 10
)

// read brings what the client sends to the owner until the transport or the connection ends. It reads on when the engine
// has taken what was read, so one buffer is enough.
func (c *conn) read() {
	buf, n := make([]byte, firstBuffer), 0
	var chunk []byte
	arrived := func() { c.chunk, c.pending = chunk, true }
	for {
		if n == len(buf) { // a frame larger than the buffer
			buf = append(buf, make([]byte, len(buf))...)
		}
		k, err := c.nc.Read(buf[n:])
		n += k
		if whole := wholeFrames(buf[:n], c.bridge.opts.MaxFrameSize); whole > 0 {
			chunk = buf[:whole]
			c.owner.Do(arrived)
			select {
			case <-c.resumed:
			case <-c.owner.Ended():
				return
			}
			rest := buf[whole:n]
			if n == len(buf) && len(buf) < largeBuffer || len(buf) > largeBuffer && len(rest) < largeBuffer {
				buf = make([]byte, min(2*len(buf), largeBuffer))
			}
			n = copy(buf, rest)
		}
		if err != nil {
			c.owner.Do(func() { c.disconnected(err) })
			return
		}
	}
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
