package main

import (
	"io"
	"net"
	"sync"
)

// link is the unreliable connection between the branch and headquarters.
type link struct {
	ln net.Listener
	to string

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]struct{}
	tasks sync.WaitGroup
}

func lay(to string) (*link, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{ln: ln, to: to, conns: map[net.Conn]struct{}{}}
	l.tasks.Go(l.serve)
	return l, nil
}

func (l *link) serve() {
	for {
		near, err := l.ln.Accept()
		if err != nil {
			return
		}
		l.tasks.Go(func() { l.carry(near) })
	}
}

func (l *link) carry(near net.Conn) {
	defer func() { _ = near.Close() }()
	far, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	if !l.hold(near, far) {
		return
	}
	var both sync.WaitGroup
	for _, ends := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			_, _ = io.Copy(ends[0], ends[1]) // ends with one of the connections
			_, _ = near.Close(), far.Close()
		})
	}
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, near)
	delete(l.conns, far)
}

// hold records connections, which cut closes. It returns false while the link is down.
func (l *link) hold(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		l.conns[c] = struct{}{}
	}
	return !l.down
}

// cut closes the link's connections, even in the middle of a frame.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

func (l *link) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

func (l *link) remove() error {
	err := l.ln.Close()
	l.cut()
	l.tasks.Wait()
	return err
}
