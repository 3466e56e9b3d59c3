package amqp

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/internal/link"
)

const (
	// mostAtOnce is how many bytes a client has to take within the time-out.
	mostAtOnce = 1 << 20
	// mostDirect is the largest write in bytes that the owner makes itself.
	mostDirect = 64 << 10
)

// writer writes what the engine has to say, one buffer at a time. The owner tries first, for as much as the socket takes
// without waiting; what is left has a goroutine, which is started for the first buffer that needs one.
type writer struct {
	nc      net.Conn
	direct  *tcpSocket // nil where the transport is no plain TCP connection
	timeout time.Duration
	tasks   *sync.WaitGroup
	work    chan func() // nil until there is a goroutine
}

func newWriter(nc net.Conn, timeout time.Duration, tasks *sync.WaitGroup) *writer {
	return &writer{nc: nc, direct: socketOf(nc), timeout: timeout, tasks: tasks}
}

// try writes as much of b as can be written without waiting.
func (w *writer) try(b []byte) (n int, err error) {
	if w.direct == nil || len(b) > mostDirect {
		return 0, nil
	}
	return w.direct.write(b)
}

// finish writes b from n on in the goroutine, and calls done there.
func (w *writer) finish(b []byte, n int, done func(error)) {
	if w.work == nil {
		w.work = make(chan func(), 1)
		link.Go(w.tasks, func() {
			for f := range w.work {
				f()
			}
		})
	}
	w.work <- func() { done(w.write(b[n:])) }
}

// stop ends the goroutine, if there is one.
func (w *writer) stop() {
	if w.work != nil {
		close(w.work)
	}
}

func (w *writer) write(b []byte) error {
	for part := range slices.Chunk(b, mostAtOnce) {
		if err := w.nc.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
			return err
		}
		if _, err := w.nc.Write(part); err != nil {
			return err
		}
	}
	if w.direct == nil {
		return nil
	}
	return w.nc.SetWriteDeadline(time.Time{}) // that would also end a direct write
}
