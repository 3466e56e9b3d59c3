package amqp

import (
	"net"
	"time"
)

// writer writes what the owner hands to it, one buffer at a time.
type writer struct {
	nc      net.Conn
	timeout time.Duration
	work    chan []byte       // closed by the owner
	written chan writeOutcome // one element per element of work
}

type writeOutcome struct {
	buf []byte // to be used again
	err error
}

func newWriter(nc net.Conn, timeout time.Duration) *writer {
	return &writer{nc: nc, timeout: timeout, work: make(chan []byte, 1), written: make(chan writeOutcome, 1)}
}

func (w *writer) run() {
	for b := range w.work {
		err := w.nc.SetWriteDeadline(time.Now().Add(w.timeout))
		if err == nil {
			_, err = w.nc.Write(b)
		}
		w.written <- writeOutcome{b, err}
	}
}
