package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/internal/wake"
)

type watchdog struct {
	run  *run
	lost chan struct{} // closes when acknowledged messages have been missing for Patience
}

// watch cancels the run if sends or settlements are unanswered for Patience.
func (w *watchdog) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	r := w.run
	var last int64
	since := time.Now()
	for wake.After(ctx, poll) {
		// Read later steps first, so that a message never counts as settled but not as received.
		settled, taken := r.settled.Load(), r.taken.Load()
		received, acked, sent := r.received.Load(), r.acked.Load(), r.sent.Load()
		idle := sent == acked && (received >= acked || r.o.Receivers == 0) && settled == taken
		progress := settled + taken + acked + sent
		if idle || progress != last {
			last, since = progress, time.Now()
			continue
		}
		if time.Since(since) < r.o.Patience {
			continue
		}
		switch {
		case sent > acked:
			cancel(fmt.Errorf("the broker did not answer %d sends within %v", sent-acked, r.o.Patience))
		case settled < taken:
			cancel(fmt.Errorf("the broker did not answer %d settlements within %v", taken-settled, r.o.Patience))
		case r.o.Mode == Lone:
			cancel(fmt.Errorf("a stored message did not arrive at a receiver within %v", r.o.Patience))
		default:
			close(w.lost)
		}
		return
	}
}
