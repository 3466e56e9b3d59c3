package broker

import (
	"context"

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

// OpenReceiver implements core.Broker.
func (b *Broker) OpenReceiver(ctx context.Context, id core.Identity, address string, o core.ReceiverOptions) (core.Receiver, error) {
	e, a, err := b.access(ctx, id, core.Listen, address)
	if err != nil {
		return nil, err
	}
	if a.Management {
		return nil, core.Refuse(core.NotAllowed, "'%s' has no messages: receive from '%s'.", a, a.Entity+a.Sub.Suffix())
	}
	e.use()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended != nil {
		return nil, e.ended
	}
	v := e.current.Load()
	if !v.Settings.Status.CanReceive() {
		return nil, disabled(v.Name)
	}
	if err := v.receivable(a.Sub); err != nil {
		return nil, err
	}
	d := e.dispatchers[a.Sub]
	if d == nil {
		var ok bool
		if d, ok = newDispatcher(e, a.Sub); !ok {
			return nil, errStopping
		}
		e.dispatchers[a.Sub] = d
		if a.Sub == core.DeadLetter {
			e.sweeps.Store(d)
		}
	}
	r := &receiver{d: d, o: o, by: e.party(ctx, id, core.Listen)}
	if err := d.add(r); err != nil {
		return nil, err
	}
	return r, nil
}

// receivable refuses to take messages, except by their numbers, from where only forwarders or
// session holders take them.
func (v *view) receivable(sub core.SubQueue) error {
	switch {
	case v.Kind == core.Topic && sub != core.TransferDeadLetter:
		return core.Refuse(core.NotAllowed, "'%s' is a topic: receive from its subscriptions, '%s'.", v.Name, core.SubscriptionPath(v.Name, "<name>"))
	case sub == core.Transfer:
		return core.Refuse(core.NotAllowed, "'%s' holds messages on their way to other entities: receive from '%s'.", v.Name+sub.Suffix(), v.Name+sub.DeadLetters().Suffix())
	case sub == core.Main && v.Settings.ForwardTo != "":
		return forwards(v)
	default:
		return v.sessionless(sub)
	}
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
		d.e.b.callback([]func(error){func(error) { drained(0) }}, nil)
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
