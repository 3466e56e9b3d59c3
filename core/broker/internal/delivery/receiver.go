package delivery

import (
	"github.com/crosstown-mq/crosstown/core"
)

// receiver implements core.Receiver. Its fields below o are guarded by d.mu.
type receiver struct {
	d  *dispatcher
	o  core.ReceiverOptions
	by core.Party // for the history, if there is one

	credit   int             // unspent
	pending  []core.Delivery // locked, to be delivered
	inFlight int             // being removed, to be delivered
	drained  []func(int)     // callbacks of Drains under way
	targets  []uint64        // by worker: the count of calls that the Drains wait for
	queued   bool            // in d.queue
	closed   bool

	delivering bool // the Deliver callback runs
	awaited    bool // a Close waits for its end

	err  error // why the broker closed it
	told bool  // o.Closed was called
}

// AddCredit implements core.Receiver.
func (r *receiver) AddCredit(n int) {
	d := r.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.closed || n <= 0 {
		return
	}
	r.credit += n
	d.credit += n
	if d.sub == core.DeadLetter && d.credit == n {
		d.wakeSweeper()
	}
	d.assign()
}

// Drain implements core.Receiver. What is available now is still delivered: Drain waits for the
// calls to the store that may find it.
func (r *receiver) Drain(drained func(unspent int)) {
	d := r.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.closed { // its dispatcher may have ended
		d.e.call(func() { drained(0) })
		return
	}
	if len(r.drained) == 0 {
		d.draining++
	}
	r.drained = append(r.drained, drained)
	if r.targets == nil {
		r.targets = make([]uint64, len(d.workers))
	}
	for i, w := range d.workers {
		r.targets[i] = w.ahead()
	}
	if !r.drainsOn() {
		d.enqueue(r)
		d.wakeIdleWorker()
	}
}

// drainsOn reports whether a Drain still has something to wait for. d.mu is held.
func (r *receiver) drainsOn() bool {
	if r.inFlight > 0 {
		return true
	}
	if r.credit == 0 {
		return false
	}
	for i, target := range r.targets {
		if w := r.d.workers[i]; w.calls < target && (w.busy || w.ready) {
			return true
		}
	}
	return false
}

// Close implements core.Receiver. It ends a Drain under way.
func (r *receiver) Close() {
	d := r.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if !r.closed {
		d.remove(r)
		if len(r.pending) > 0 || len(r.drained) > 0 {
			d.enqueue(r)
			d.wakeIdleWorker()
		}
	}
	if r.delivering && isInDeliver() {
		return
	}
	for r.delivering {
		r.awaited = true
		d.deliverEnded.Wait()
	}
}

// takes reports whether share may give r messages.
func (r *receiver) takes(removals *[]removal) bool {
	return removals != nil || r.o.Mode == core.PeekLock
}
