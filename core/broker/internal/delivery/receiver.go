package delivery

import (
	"github.com/crosstown-mq/crosstown/core"
)

// d.mu guards all fields below o.
type receiver struct {
	d    *dispatcher
	o    core.ReceiverOptions
	by   core.Party // the client, for histories; zero if the entity has none
	link link

	credit   int
	bytes    int64 // credit in bytes; negative if the last delivery exceeded it
	pending  []core.Delivery
	inFlight int
	drained  []func(int)
	targets  []uint64 // by worker: Drains wait until the worker's field calls reaches this value
	queued   bool
	closed   bool

	delivering bool
	awaited    bool

	err  error
	told bool
}

func (r *receiver) AddCredit(n int, bytes int64) {
	d := r.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.closed {
		return
	}
	before := d.credit
	r.change(n, bytes)
	if d.sub == core.DeadLetter && before == 0 && d.credit > 0 {
		d.sweepSoon.Set()
	}
	d.assign()
}

// change adds n and bytes to the receiver's credit; both may be negative. d.mu is held.
func (r *receiver) change(n int, bytes int64) {
	r.count(-1)
	r.credit += n
	r.bytes += bytes
	r.count(1)
}

// count adds the receiver's credit to its dispatcher's or, for sign -1, subtracts it. d.mu is held.
func (r *receiver) count(sign int) {
	if r.isWilling() {
		r.d.credit += sign * r.credit
		r.d.bytes += int64(sign) * r.bytes
	}
}

// d.mu is held.
func (r *receiver) isWilling() bool { return !r.closed && r.credit > 0 && r.bytes > 0 }

// Drain waits for store calls in flight, so that messages available now are still delivered.
func (r *receiver) Drain(drained func(unspent int)) {
	d := r.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.closed { // its dispatcher may have stopped
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

// drainsOn reports whether the Drains in flight must still wait. d.mu is held.
func (r *receiver) drainsOn() bool {
	if r.inFlight > 0 {
		return true
	}
	if !r.isWilling() {
		return false
	}
	for i, target := range r.targets {
		if w := r.d.workers[i]; w.calls < target && (w.busy || w.ready) {
			return true
		}
	}
	return false
}

// Close implements core.Receiver. It ends a Drain in flight.
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
	for r.delivering {
		r.awaited = true
		d.deliverEnded.Wait()
	}
}

func (r *receiver) takes(removals *[]removal) bool {
	return removals != nil || r.o.Mode == core.PeekLock
}
