package websocket

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

type output struct {
	socket  *link.Socket // nil if the connection is not a plain TCP connection
	out     []byte
	writing int
	choked  bool // the client reads too slowly, so no more deliveries are requested
}

// First bytes of frames: the opcode (RFC 6455 §11.8), and the bit for an unfragmented message.
const (
	opText   = 0x81
	opBinary = 0x82
	opClose  = 0x88
	opPing   = 0x89
	opPong   = 0x8a
)

const (
	writeChunk = 64 << 10
	// transmit divides its patience into writeGlances time-outs. After each, it checks whether the
	// client has read anything: a partial write does not show when that was.
	writeGlances = 6
	// secureChunk is writeChunk over TLS: the largest record. Nothing can be written after a time-out,
	// so each chunk has all of the patience.
	secureChunk = 16 << 10
	keptBuffer  = 256 << 10
	// lastWords is how long a client that was too slow has to read the close frame.
	lastWords = 5 * time.Second

	frameHeads   = 16 << 10 // about the size of a delivery without its body and properties
	reservedHead = 4        // bytes of the head of a frame with 126 to 65535 bytes
	maxShort     = 125      // bytes of the largest frame with a head of two bytes
)

// writeBuffers hold frames until they are written. Idle connections have none.
var writeBuffers = sync.Pool{New: func() any { return new([]byte) }}

// growOut makes room for a large message at once, because the buffer would otherwise be copied
// repeatedly while the frame is encoded.
func (c *conn) growOut(size int) {
	if size < keptBuffer {
		return
	}
	if c.encoding == codec.JSON { // JSON contains the body in base64, most likely
		size = size * 4 / 3
	}
	c.out = slices.Grow(c.out, size+frameHeads)
}

func openFrame(out []byte) (opened []byte, mark int) {
	return append(out, 0, 0, 0, 0), len(out)
}

// closeFrame writes the head of the frame opened at mark. Frames of a server are not masked.
func closeFrame(out []byte, mark int, opcode byte) []byte {
	n := len(out) - mark - reservedHead
	switch {
	case n <= maxShort:
		out = slices.Delete(out, mark+2, mark+reservedHead)
		out[mark+1] = byte(n)
	case n <= math.MaxUint16:
		out[mark+1] = 126
		binary.BigEndian.PutUint16(out[mark+2:], uint16(n))
	default:
		out = slices.Insert(out, mark+reservedHead, 0, 0, 0, 0, 0, 0)
		out[mark+1] = 127
		binary.BigEndian.PutUint64(out[mark+2:], uint64(n))
	}
	out[mark] = opcode
	return out
}

func appendControl(out []byte, opcode byte, payload string) []byte {
	payload = payload[:min(len(payload), maxShort)]
	return append(append(out, opcode, byte(len(payload))), payload...)
}

func appendClose(out []byte, code closeCode, reason string) []byte {
	if code == closeNoStatus {
		return appendControl(out, opClose, "")
	}
	payload := string(binary.BigEndian.AppendUint16(nil, uint16(code)))
	for _, r := range reason {
		if len(payload)+len(string(r)) > maxShort {
			break
		}
		payload += string(r)
	}
	return appendControl(out, opClose, payload)
}

// frameEnd returns the end of the frame that contains b[i]. b begins with the start of a frame.
func frameEnd(b []byte, i int) int {
	end := 0
	for end < i {
		head, n := frameHead(b[end:])
		end += head + int(n)
	}
	return end
}

var errSlow = errors.New("the client does not read the frames that the gateway sends")

// transmit writes the frames from byte done on. If the client reads nothing for the duration
// patience, transmit sends only the rest of the current frame and a close frame.
func transmit(nc net.Conn, frames []byte, done int, patience time.Duration) error {
	idle, glances, chunk := 0, writeGlances, writeChunk
	if _, secure := nc.(interface{ ConnectionState() tls.ConnectionState }); secure {
		glances, chunk = 1, secureChunk
	}
	for done < len(frames) {
		_ = nc.SetWriteDeadline(time.Now().Add(patience / time.Duration(glances)))
		n, err := nc.Write(frames[done:min(done+chunk, len(frames))])
		done += n
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if n > 0 {
			idle = 0
			continue
		}
		if idle++; idle < glances {
			continue
		}
		_ = nc.SetWriteDeadline(time.Now().Add(lastWords))
		rest := slices.Clone(frames[done:frameEnd(frames, done)])
		_, _ = nc.Write(appendClose(rest, closeTooSlow, "The client did not read its frames for too long."))
		return errSlow
	}
	return nc.SetWriteDeadline(time.Time{}) // the deadline would also end writes of the owner
}

// write sends the output. It writes what the transport takes without blocking, and starts a
// goroutine for the rest. It reports whether all of the output has been written.
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
	if c.Last > 0 {
		buf = buf[:min(len(buf), c.Last)]
		link.Go(&c.Tasks, func() {
			_ = transmit(c.NC, buf, 0, writeTimeout)
			_ = c.NC.Close() // ends the reader
			c.Owner.Do(func() { c.wrote(buf, net.ErrClosed) })
		})
		return false
	}
	if c.socket != nil {
		var err error
		if done, err = c.socket.Write([][]byte{buf}, false); err != nil || done == len(buf) {
			c.wrote(buf, err)
			return err == nil
		}
	}
	link.Go(&c.Tasks, func() {
		err := transmit(c.NC, buf, done, writeTimeout)
		c.Owner.Do(func() { c.wrote(buf, err) })
	})
	return false
}

func (c *conn) wrote(buf []byte, err error) {
	c.writing = 0
	if cap(buf) <= keptBuffer {
		writeBuffers.Put(&buf)
	}
	if c.pinged == pingLeaves {
		c.pinged, c.pong = noPing, time.Now().Add(c.bridge.opts.PingInterval)
	}
	switch {
	case errors.Is(err, errSlow):
		c.said = true
		c.disconnected(err)
		c.out = nil
		_ = c.NC.Close() // ends the reader
	case err != nil:
		c.broken, c.out = true, nil
		c.deadline = time.Now().Add(c.bridge.opts.DrainGrace)
	}
	if c.choked && len(c.out) <= maxWaiting/2 {
		c.choked = false
		c.askAll()
	}
}

func (c *conn) tell(op string, more func(w codec.Writer)) {
	if c.said || c.broken || c.lost != nil {
		return
	}
	if c.out == nil {
		c.out = (*writeBuffers.Get().(*[]byte))[:0]
	}
	out, mark := openFrame(c.out)
	w := codec.NewWriter(c.encoding, out)
	w.OpenMap()
	w.Key("op").Text(op)
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
	if !c.said && !c.broken && c.lost == nil && len(c.out) <= maxWaiting { // a client with more than maxWaiting bytes of unread output gets no pong
		c.out = appendControl(c.out, opcode, payload)
	}
}
