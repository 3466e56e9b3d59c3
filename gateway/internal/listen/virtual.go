package listen

import (
	"context"
	"net"
	"sync"
	"time"
)

// virtual passes connections to listeners. It has no queue: each connection waits for an Accept.
type virtual struct {
	addr  net.Addr
	conns chan net.Conn
}

func newVirtual(addr net.Addr) *virtual { return &virtual{addr: addr, conns: make(chan net.Conn)} }

// hand offers conn to the listeners. It reports whether one accepted conn before timeout or the end
// of ctx.
func (v *virtual) hand(ctx context.Context, conn net.Conn, timeout time.Duration) bool {
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case v.conns <- conn:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}

func (v *virtual) listen() net.Listener { return &listener{virtual: v, closed: make(chan struct{})} }

type listener struct {
	*virtual
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed: // checked first, because a connection may wait
		return nil, net.ErrClosed
	default:
	}
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept return an error. It does not close the real listeners.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns the address of the first real listener.
func (l *listener) Addr() net.Addr { return l.addr }
