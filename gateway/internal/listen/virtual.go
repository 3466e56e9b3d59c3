package listen

import (
	"context"
	"net"
	"sync"
	"time"
)

// virtual is a net.Listener of connections accepted elsewhere. Handing over
// waits for Accept, so nothing piles up between the two.
type virtual struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newVirtual(addr net.Addr) *virtual {
	return &virtual{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// hand passes conn to Accept. It reports false if nothing accepts it in time, or
// before ctx ends or the listener is closed.
func (v *virtual) hand(ctx context.Context, conn net.Conn, timeout time.Duration) bool {
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case v.conns <- conn:
		return true
	case <-v.closed:
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}

// Accept returns the next connection, or net.ErrClosed.
func (v *virtual) Accept() (net.Conn, error) {
	select {
	case conn := <-v.conns:
		return conn, nil
	case <-v.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and hand. The real listeners are not its concern.
func (v *virtual) Close() error {
	v.once.Do(func() { close(v.closed) })
	return nil
}

// Addr returns the address of the first real listener.
func (v *virtual) Addr() net.Addr { return v.addr }
