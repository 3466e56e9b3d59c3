package listen

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// rewound is a connection whose reads begin with the bytes that were read to detect the protocol.
type rewound struct {
	net.Conn
	head     []byte
	admitted *Conn // the connection itself, or the one below TLS
	request  *header
}

// maxHeaderLines limits the lines of an HTTP request's header. net/http limits only the bytes, but
// needs about a hundred more for each line.
const maxHeaderLines = 1000

var (
	errHeaderLines = fmt.Errorf("an HTTP request has more than %d header lines", maxHeaderLines)
	errHeaderBytes = errors.New("the headers of all HTTP requests take too much memory")
)

type header struct {
	lines, begun int // begun counts the bytes of the current line
	ended        bool
}

func (h *header) isLong() bool { return h.lines > maxHeaderLines }

func (h *header) count(p []byte) {
	for !h.ended {
		at := bytes.IndexByte(p, '\n')
		if at < 0 {
			h.begun += len(p)
			break
		}
		h.ended = h.begun+at <= 1 // an empty line, with or without CR
		h.lines++
		p, h.begun = p[at+1:], 0
	}
}

func (c *rewound) Proven() { c.admitted.Proven() }

func (c *rewound) Charge(take func() (release func(), err error)) error {
	return c.admitted.Charge(take)
}

// Answered also starts the count of header lines again, for the next request.
func (c *rewound) Answered() {
	c.admitted.Answered()
	if c.request != nil {
		*c.request = header{}
	}
}

// Close closes c and the connection below TLS, so that the listener can admit another client.
func (c *rewound) Close() error {
	err := c.Conn.Close() // TLS sends its closing alert first
	_ = c.admitted.Close()
	return err
}

func (c *rewound) Read(p []byte) (n int, err error) {
	switch {
	case c.request != nil && c.request.isLong(): // return the error again: a bufio.Reader forgets it if a part of a line came first
		return 0, errHeaderLines
	case len(c.head) == 0:
		n, err = c.Conn.Read(p)
	default:
		n = copy(p, c.head)
		c.head = c.head[n:]
	}
	if c.request == nil {
		return n, err
	}
	c.request.count(p[:n])
	switch {
	case c.request.isLong():
		return 0, c.refuse(errHeaderLines, "431 Request Header Fields Too Large",
			fmt.Sprintf("The request has more than %d lines of headers. Send large numbers of properties with AMQP, or in the body.", maxHeaderLines))
	case !c.request.ended && c.admitted.proven.Load() && c.admitted.hold(n):
		c.admitted.admission.tell(heavy, c.admitted)
		return 0, c.refuse(errHeaderBytes, "503 Service Unavailable\r\nRetry-After: 1", "The headers that arrive at this gateway take too much memory. Try again later, with shorter headers.")
	}
	return n, err
}

// refuse answers a request whose header is too large: net/http would read the whole header first.
func (c *rewound) refuse(why error, status, text string) error {
	_, _ = fmt.Fprintf(c.Conn, "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n%s\n", status, text) // ignore the error: the client may have disconnected
	return why
}

func (c *rewound) SyscallConn() (syscall.RawConn, error) { return socketOf(c.Conn) }

func socketOf(c net.Conn) (syscall.RawConn, error) {
	if s, ok := c.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// CloseWrite lets the peer receive the answer: net/http calls it before it drops a peer that is
// still sending.
func (c *rewound) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// secured is a rewound inside TLS. net/http sets Request.TLS from its ConnectionState.
type secured struct {
	rewound
	state tls.ConnectionState
}

func (c *secured) ConnectionState() tls.ConnectionState { return c.state }
