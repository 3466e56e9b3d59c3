package redistest

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

type Proxy struct {
	target   string
	listener net.Listener
	meddle   atomic.Pointer[func(Request) error]
	passing  sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]struct{} // nil after the proxy is closed
	serial int
}

type Request struct {
	Connection int // number of the connection, from 1
	First      bool
	Bytes      []byte
}

func Proxied(tb testing.TB, s *Server) *Proxy {
	tb.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{target: u.Path, open: make(map[net.Conn]struct{})}
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		tb.Fatalf("listen before redis-server: %v", err)
	}
	p.passing.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

func (p *Proxy) URL() string { return "redis://" + p.listener.Addr().String() }

// Meddle makes the proxy call f before it forwards each request. f may wait. If f returns an error,
// the proxy resets the connection instead. Meddle(nil) ends this.
func (p *Proxy) Meddle(f func(Request) error) {
	if f == nil {
		p.meddle.Store(nil)
		return
	}
	p.meddle.Store(&f)
}

func (p *Proxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		reset(c)
	}
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			p.passing.Go(func() { p.pass(c) })
		}
	}
}

func (p *Proxy) pass(from net.Conn) {
	defer reset(from)
	to, err := net.Dial("unix", p.target)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	number, ok := p.enter(from)
	if !ok {
		return
	}
	defer p.leave(from)
	p.passing.Go(func() {
		_, _ = io.Copy(from, to) // ends with one of the connections
		reset(from)
	})
	buffer := make([]byte, 64<<10)
	for first := true; ; first = false {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if meddle := p.meddle.Load(); meddle != nil {
			if err := (*meddle)(Request{number, first, buffer[:n]}); err != nil {
				return
			}
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *Proxy) enter(c net.Conn) (number int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		return 0, false
	}
	p.serial++
	p.open[c] = struct{}{}
	return p.serial, true
}

func (p *Proxy) leave(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.Break()
	p.mu.Lock()
	p.open = nil
	p.mu.Unlock()
	p.passing.Wait()
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
