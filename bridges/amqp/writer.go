package amqp

import (
	"net"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/internal/link"
)

type output struct {
	writer  *writer
	spare   []byte // memory for engine.Conn.Take
	parts   [][]byte
	writing bool
}

const mostAtOnce = 1 << 20

// writer writes the engine's output. A job of the connection writes what the socket takes without
// blocking; a goroutine writes the rest.
type writer struct {
	nc      net.Conn
	direct  *link.Socket // nil if the transport is not a plain TCP connection
	timeout time.Duration
	tasks   *sync.WaitGroup
	work    chan func() // nil until the goroutine has started
}

// references returns the size from which bodies are written without a copy, or 0 for never: except
// on plain TCP, each part would be a separate write or TLS record.
func (w *writer) references() int {
	if w.direct == nil {
		return 0
	}
	return largeBody
}

// try writes what the socket takes without blocking. left is the rest.
func (w *writer) try(parts [][]byte) (left [][]byte, err error) {
	for w.direct != nil && len(parts) > 0 && err == nil {
		offered, n := len(parts), 0
		n, err = w.direct.Write(parts, false)
		if parts = cut(parts, n); offered-len(parts) < min(offered, link.MostParts) { // the socket is full
			break
		}
	}
	return parts, err
}

// finish writes parts in the writer's goroutine, which then calls done.
func (w *writer) finish(parts [][]byte, done func(error)) {
	if w.work == nil {
		w.work = make(chan func(), 1)
		link.Go(w.tasks, func() {
			for f := range w.work {
				f()
			}
		})
	}
	w.work <- func() { done(w.write(parts)) }
}

func (w *writer) stop() {
	if w.work != nil {
		close(w.work)
	}
}

func (w *writer) write(parts [][]byte) error {
	for left := 0; len(parts) > 0; {
		if left <= 0 {
			left = mostAtOnce
			if err := w.nc.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
				return err
			}
		}
		n, err := w.some(parts, left)
		if err != nil {
			return err
		}
		parts, left = cut(parts, n), left-n
	}
	if w.direct == nil {
		return nil
	}
	return w.nc.SetWriteDeadline(time.Time{}) // the deadline would also end later writes by the connection's jobs
}

// some writes a part of parts. A transport that takes one part per write gets at most n bytes.
func (w *writer) some(parts [][]byte, n int) (int, error) {
	if w.direct != nil {
		return w.direct.Write(parts, true)
	}
	return w.nc.Write(parts[0][:min(n, len(parts[0]))])
}

// cut returns parts without their first n bytes. It changes the elements of parts.
func cut(parts [][]byte, n int) [][]byte {
	for len(parts) > 0 && n >= len(parts[0]) {
		n -= len(parts[0])
		parts[0] = nil
		parts = parts[1:]
	}
	if n > 0 {
		parts[0] = parts[0][n:]
	}
	return parts
}

func head(parts [][]byte, n int) [][]byte {
	for i, p := range parts {
		if len(p) >= n {
			parts[i] = p[:n]
			return parts[:i+1]
		}
		n -= len(p)
	}
	return parts
}
