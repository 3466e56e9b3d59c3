package delivery

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	MaxReceivers = 5000 // receivers of one sub-queue at this gateway
	MaxLock      = 200
	MaxLockBytes = 8 << 20
	// minShare and minShareBytes are the least credit of a partition, even if others get none.
	minShare      = 32
	minShareBytes = 1 << 20
	// IdleLife is how long a dispatcher stays without receivers: polling clients return soon.
	IdleLife = 10 * time.Second
)

// dispatcher distributes the messages of one sub-queue among its receivers at this gateway. Its
// workers call the store. Callbacks to bridges are queued, and run by whichever goroutine finds
// them first: one at a time, in order and without mu.
type dispatcher struct {
	e       *Entity
	sub     core.SubQueue
	workers []*worker
	unwatch []func()
	stopped atomic.Bool

	sweepSoon wake.Signal
	quit      chan struct{}

	mu           sync.Mutex
	deliverEnded sync.Cond // signalled when a Deliver callback for which a Close waits has ended
	receivers    []*receiver
	removing     int
	nextReceiver int
	nextWorker   int
	credit       int // sum over the receivers for which isWilling returns true
	bytes        int64
	reserved     core.Most
	draining     int
	queue        []*receiver
	calling      bool
	retireTimer  *time.Timer
	nextExpiry   time.Time // when the sweeper must sweep the main queue, by the store's clock
}

// newDispatcher starts a dispatcher. It returns false if the broker has stopped. e.mu is held.
func newDispatcher(e *Entity, sub core.SubQueue) (*dispatcher, bool) {
	d := &dispatcher{e: e, sub: sub, sweepSoon: wake.New(), quit: make(chan struct{})}
	d.deliverEnded.L = &d.mu
	v := e.View()
	for i := range v.Queues[sub] {
		d.workers = append(d.workers, &worker{d: d, index: i, woken: wake.New(), poller: poller{ready: true}})
	}
	if !e.Start(d.run) {
		return nil, false
	}
	for i, w := range d.workers {
		d.unwatch = append(d.unwatch, v.Queues[sub][i].Watch(w))
	}
	return d, true
}

func (d *dispatcher) run() {
	var wg sync.WaitGroup
	for _, w := range d.workers {
		wg.Go(w.run)
	}
	if d.sub == core.DeadLetter {
		wg.Go(d.sweep)
	}
	wg.Wait()
}

// stop ends a dispatcher without receivers, and does not wait for calls in flight.
func (d *dispatcher) stop() {
	if d.stopped.Swap(true) {
		return
	}
	close(d.quit)
	for _, unwatch := range d.unwatch {
		unwatch()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.retireTimer != nil {
		d.retireTimer.Stop()
	}
	for _, w := range d.workers {
		if w.timer != nil {
			w.timer.Stop()
		}
		w.woken.Set()
	}
}

// e.mu is held.
func (d *dispatcher) add(r *receiver) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.receivers) >= MaxReceivers {
		return core.Refuse(core.QuotaExceeded, "'%s' has %d receivers at this gateway, which is the limit: close some.", d.e.View().Name, MaxReceivers)
	}
	if d.retireTimer != nil {
		d.retireTimer.Stop()
		d.retireTimer = nil
	}
	d.receivers = append(d.receivers, r)
	if r.o.Mode == core.ReceiveAndDelete {
		d.removing++
	}
	return nil
}

// d.mu is held.
func (d *dispatcher) remove(r *receiver) {
	r.count(-1)
	r.closed = true
	d.e.Circuit().end(&r.link, false)
	if r.o.Mode == core.ReceiveAndDelete {
		d.removing--
	}
	d.receivers = slices.DeleteFunc(d.receivers, func(other *receiver) bool { return other == r })
	if len(d.receivers) == 0 && d.retireTimer == nil && !d.stopped.Load() {
		d.retireTimer = time.AfterFunc(IdleLife, d.retireIdle)
	}
}

func (d *dispatcher) retireIdle() {
	d.e.mu.Lock()
	idle := d.e.dispatchers[d.sub] == d && !d.hasReceivers()
	if idle {
		delete(d.e.dispatchers, d.sub)
		if d.sub == core.DeadLetter {
			d.e.sweeps.Store(nil)
		}
	}
	d.e.mu.Unlock()
	if idle {
		d.stop()
	}
}

func (d *dispatcher) hasReceivers() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.receivers) > 0
}

func (d *dispatcher) closeReceivers(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.receivers) > 0 {
		r := d.receivers[len(d.receivers)-1]
		r.err = err
		d.remove(r)
		d.enqueue(r)
	}
	d.wakeIdleWorker()
}

// assign gives free credit, in turn, to workers that may find messages. d.mu is held.
func (d *dispatcher) assign() {
	free, ready := d.free(), 0
	if free.Messages <= 0 || free.Bytes <= 0 {
		return
	}
	for _, w := range d.workers {
		if w.ready && !w.busy {
			ready++
		}
	}
	for i, first := 0, d.nextWorker; i < len(d.workers) && free.Messages > 0 && free.Bytes > 0 && ready > 0; i++ {
		at := (first + i) % len(d.workers)
		w := d.workers[at]
		if !w.ready || w.busy {
			continue
		}
		w.grant(core.Most{
			Messages: min(max((free.Messages+ready-1)/ready, min(free.Messages, minShare)), MaxLock),
			Bytes:    min(max(free.Bytes/int64(ready), min(free.Bytes, minShareBytes)), MaxLockBytes),
		})
		w.granted, free = true, d.free()
		ready--
		d.nextWorker = at + 1
		w.woken.Set()
	}
}

// free returns the credit that no Lock call in flight uses. d.mu is held.
func (d *dispatcher) free() core.Most {
	return core.Most{Messages: d.credit - d.reserved.Messages, Bytes: d.bytes - d.reserved.Bytes}
}

// share divides deliveries among the receivers with credit, as evenly as possible, and returns the
// rest. Deliveries for receivers in ReceiveAndDelete mode are added to removals; if that is nil,
// these receivers get none. d.mu is held.
func (d *dispatcher) share(ds []core.Delivery, removals *[]removal) (surplus []core.Delivery) {
	for len(ds) > 0 {
		willing := 0
		for _, r := range d.receivers {
			if r.isWilling() && r.takes(removals) {
				willing++
			}
		}
		if willing == 0 {
			return ds
		}
		each := (len(ds) + willing - 1) / willing
		for i, first := 0, d.nextReceiver; i < len(d.receivers) && len(ds) > 0; i++ {
			at := (first + i) % len(d.receivers)
			r := d.receivers[at]
			if !r.takes(removals) {
				continue
			}
			n := 0
			for ; n < each && n < len(ds) && r.isWilling(); n++ {
				r.change(-1, -int64(ds[n].Size()))
			}
			if n == 0 {
				continue
			}
			d.nextReceiver = at + 1
			part := ds[:n:n]
			ds = ds[n:]
			if r.o.Mode == core.ReceiveAndDelete {
				r.inFlight += n
				*removals = append(*removals, removal{r, part})
				continue
			}
			d.give(r, part)
		}
	}
	return nil
}

// d.mu is held.
func (d *dispatcher) give(r *receiver, ds []core.Delivery) {
	if len(r.pending) == 0 {
		r.pending = ds
	} else {
		r.pending = append(r.pending, ds...)
	}
	d.enqueue(r)
}

func (d *dispatcher) enqueue(r *receiver) {
	if !r.queued {
		r.queued = true
		d.queue = append(d.queue, r)
	}
}

// wakeIdleWorker makes an idle worker run the queued callbacks. The caller must not run them,
// because it may hold locks of a bridge. d.mu is held.
func (d *dispatcher) wakeIdleWorker() {
	if len(d.queue) == 0 || d.calling {
		return
	}
	for _, w := range d.workers {
		if !w.busy {
			w.woken.Set()
			return
		}
	}
}

// flush runs the queued callbacks, unless another goroutine does. d.mu is held, and released during
// callbacks.
func (d *dispatcher) flush() {
	if d.calling {
		return
	}
	d.calling = true
	for len(d.queue) > 0 {
		r := d.queue[0]
		if len(d.queue) == 1 {
			d.queue = d.queue[:0]
		} else {
			d.queue = d.queue[1:]
		}
		r.queued = false
		d.runCallbacks(r)
	}
	d.calling = false
}

// runCallbacks calls a receiver's Deliver, then the callbacks of its Drains, then its Closed. d.mu
// is held, and released during callbacks.
func (d *dispatcher) runCallbacks(r *receiver) {
	ds, drained, closed := r.pending, r.drained, r.o.Closed
	r.pending = nil
	switch {
	case !r.closed:
	case r.o.Mode == core.ReceiveAndDelete:
		d.giveRemoved(ds)
		ds = nil
	default:
		ds = d.share(ds, nil)
	}
	unspent := 0
	var done []func(int)
	if r.closed || !r.drainsOn() {
		done, r.drained, r.targets = drained, nil, nil
		if len(done) > 0 {
			d.draining--
			unspent = r.credit
			r.change(-unspent, -r.bytes)
		}
	}
	if r.err == nil || r.told {
		closed = nil
	}
	r.told = r.told || closed != nil
	isClosed, err := r.closed, r.err
	r.delivering = len(ds) > 0 && !isClosed
	d.mu.Unlock()
	if len(ds) > 0 {
		if isClosed {
			d.release(ds)
		} else {
			d.e.traffic.Queues[d.sub].Delivered.Add(int64(len(ds)))
			d.e.audit.Delivered(d.e.View(), d.sub, ds, r.by)
			d.e.Circuit().deliver(&r.link, ds)
			r.o.Deliver(ds)
			d.mu.Lock()
			r.delivering = false
			if r.awaited {
				d.deliverEnded.Broadcast()
			}
			d.mu.Unlock()
		}
	}
	for _, f := range done {
		f(unspent)
		unspent = 0
	}
	if closed != nil {
		closed(err)
	}
	d.mu.Lock()
}

func (d *dispatcher) release(ds []core.Delivery) {
	for _, err := range d.e.SettleAll(d.e.Base, d.sub, ds, core.Release) {
		if code := core.CodeOf(err); code != "" && code != core.LockLost && code != core.NotFound {
			d.e.Log.Warn("cannot release messages that no receiver needs: they stay locked until their locks expire", "entity", d.e.View().Name, "err", err)
			return
		}
	}
}

// checkDrains queues the callbacks of Drains that are complete. d.mu is held.
func (d *dispatcher) checkDrains() {
	if d.draining == 0 {
		return
	}
	for _, r := range d.receivers {
		if len(r.drained) > 0 && !r.drainsOn() {
			d.enqueue(r)
		}
	}
}

// giveRemoved gives removed messages to receivers in ReceiveAndDelete mode. If none can take them,
// the messages are lost, as that mode allows. d.mu is held.
func (d *dispatcher) giveRemoved(ds []core.Delivery) {
	for _, r := range d.receivers {
		n := min(r.credit, len(ds))
		if r.o.Mode != core.ReceiveAndDelete || n == 0 {
			continue
		}
		r.change(-n, -int64(core.SizeOf(ds[:n])))
		d.give(r, ds[:n:n])
		ds = ds[n:]
	}
	if len(ds) > 0 {
		d.e.Log.Info("messages are lost, because a receive-and-delete receiver closed before it got them", "entity", d.e.View().Name, "count", len(ds))
	}
}

func (d *dispatcher) dropUndelivered() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.queue { // a closed receiver is only in this list
		if r.closed {
			r.pending = nil
		}
	}
	for _, r := range d.receivers {
		r.change(len(r.pending), int64(core.SizeOf(r.pending)))
		r.pending = nil
	}
	d.assign()
}
