package listen

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// rewound is a connection whose first bytes were already read and are read again.
type rewound struct {
	net.Conn
	head     []byte // bytes still to be read again
	admitted *Conn  // the connection, below TLS if TLS is used
}

// Proven calls Conn's Proven.
func (c *rewound) Proven() { c.admitted.Proven() }

// Answered calls Conn's Answered.
func (c *rewound) Answered() { c.admitted.Answered() }

// Close also frees the place of a connection in TLS.
func (c *rewound) Close() error {
	err := c.Conn.Close() // TLS sends its closing alert first
	_ = c.admitted.Close()
	return err
}

func (c *rewound) Read(p []byte) (int, error) {
	if len(c.head) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.head)
	c.head = c.head[n:]
	return n, nil
}

// SyscallConn gives the bridges the socket of a connection without TLS.
func (c *rewound) SyscallConn() (syscall.RawConn, error) { return socketOf(c.Conn) }

func socketOf(c net.Conn) (syscall.RawConn, error) {
	if s, ok := c.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// CloseWrite ends the sending half, if the connection supports that. net/http calls it before
// dropping a peer that is still sending, so that the answer is not lost.
func (c *rewound) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// secured is a rewound connection inside TLS. Its ConnectionState makes net/http set Request.TLS.
type secured struct {
	rewound
	state tls.ConnectionState
}

// ConnectionState returns the result of the handshake.
func (c *secured) ConnectionState() tls.ConnectionState { return c.state }
