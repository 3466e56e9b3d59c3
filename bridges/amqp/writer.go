package amqp

import (
	"net"
	"slices"
	"time"
)

// writer writes what the owner hands to it, one buffer at a time.
type writer struct {
	nc      net.Conn
	timeout time.Duration
	work    chan []byte       // closed by the owner
	written chan writeOutcome // one element per element of work
}

// mostAtOnce is how many bytes a client has to take within the time-out.
const mostAtOnce = 1 << 20

type writeOutcome struct {
	buf []byte // to be used again
	err error
}

func newWriter(nc net.Conn, timeout time.Duration) *writer {
	return &writer{nc: nc, timeout: timeout, work: make(chan []byte, 1), written: make(chan writeOutcome, 1)}
}

func (w *writer) run() {
	for b := range w.work {
		var err error
		for part := range slices.Chunk(b, mostAtOnce) {
			if err = w.write(part); err != nil {
				break
			}
		}
		w.written <- writeOutcome{b, err}
	}
}

func (w *writer) write(b []byte) error {
	if err := w.nc.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return err
	}
	_, err := w.nc.Write(b)
	return err
}
