package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// dialer makes connections that Close resets if an operation has timed out. Otherwise the kernel
// would continue to send data, and a server that was unreachable would get old writes later.
func dialer(config *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := net.Dialer{Timeout: dialTimeout, KeepAlive: 5 * time.Minute}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := plain.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			c = &resetting{tcp}
		}
		if config == nil {
			return c, nil
		}
		own := config.Clone()
		if own.ServerName == "" {
			own.ServerName, _, _ = net.SplitHostPort(addr)
		}
		secure := tls.Client(c, own)
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = c.Close() // the handshake's error is returned
			return nil, err
		}
		return secure, nil
	}
}

// isRefusal reports whether no server listens at the address.
func isRefusal(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

// uncounted returns a refusal as a connection whose first use fails with err. go-redis counts failed
// dials: after as many as its pool has connections, it would dial only once a second, and calls
// would fail although the server is back.
func uncounted(c net.Conn, err error) (net.Conn, error) {
	if !isRefusal(err) {
		return c, err
	}
	unused, _ := net.Pipe()
	return &refusedConn{unused, fmt.Errorf("cannot connect: %w", err)}, nil // go-redis unwraps an error of a new connection once
}

type refusedConn struct {
	net.Conn
	err error
}

func (c *refusedConn) Read([]byte) (int, error)  { return 0, c.err }
func (c *refusedConn) Write([]byte) (int, error) { return 0, c.err }

type resetting struct{ *net.TCPConn }

func (c *resetting) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	return n, c.note(err)
}

func (c *resetting) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	return n, c.note(err)
}

func (c *resetting) note(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.SetLinger(0) // if this fails, Close ends the connection normally
	}
	return err
}
