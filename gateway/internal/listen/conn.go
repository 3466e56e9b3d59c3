package listen

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// rewound is a connection whose first bytes, read to detect the protocol, are read again.
type rewound struct {
	net.Conn
	head     []byte
	admitted *Conn // the connection, or the one below TLS
	request  *header
}

// maxHeaderLines bounds the lines of an HTTP request's header. net/http bounds only the bytes, and
// needs about a hundred more for each line.
const maxHeaderLines = 1000

var (
	errHeaderLines = fmt.Errorf("an HTTP request has more than %d header lines", maxHeaderLines)
	errHeaderBytes = errors.New("HTTP headers take too much memory")
)

type header struct {
	lines, begun int // begun counts the bytes of the last line
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

// Answered does the same as Conn.Answered, and counts the lines of the next request's header from
// 0.
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
	case c.request != nil && c.request.isLong(): // a bufio.Reader forgets an error that comes after a part of a line
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

// refuse answers instead of net/http, which cannot answer before it has the whole header.
func (c *rewound) refuse(why error, status, text string) error {
	_, _ = fmt.Fprintf(c.Conn, "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n%s\n", status, text) // the client may have disconnected
	return why
}

func (c *rewound) SyscallConn() (syscall.RawConn, error) { return socketOf(c.Conn) }

func socketOf(c net.Conn) (syscall.RawConn, error) {
	if s, ok := c.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// net/http calls CloseWrite before it drops a peer that is still sending, so that the peer receives
// the answer.
func (c *rewound) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// secured is a rewound inside TLS. net/http calls ConnectionState to set Request.TLS.
type secured struct {
	rewound
	state tls.ConnectionState
}

func (c *secured) ConnectionState() tls.ConnectionState { return c.state }
