package delivery

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

// worker locks messages of one partition, in one call at a time. d.mu guards the fields below
// woken.
type worker struct {
	d     *dispatcher
	index int
	woken wake.Signal

	poller  // says whether the worker is ready: see assign
	asked   core.Most
	granted bool
	timer   *time.Timer
}

type removal struct {
	r  *receiver
	ds []core.Delivery
}

// The store calls Wake when it has new messages; a timer calls it, too.
func (w *worker) Wake(core.SessionKey) {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if w.poller.wake() {
		w.d.assign()
	}
}

// Reserve implements core.Watcher, for a worker without a call in flight. It requests no messages
// if there are receivers in ReceiveAndDelete mode, because the sender would have to wait for a
// second call that removes the messages.
func (w *worker) Reserve() core.Most {
	d := w.d
	if !d.e.Barrier.TryEnter() {
		return core.Most{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	most := d.free()
	isReady := most.Messages > 0 && most.Bytes > 0 && !w.busy && w.backoff == 0 && d.removing == 0 && !d.stopped.Load()
	most = core.Most{Messages: min(most.Messages, MaxLock), Bytes: min(most.Bytes, MaxLockBytes)}
	if isReady && d.sub == core.Main {
		most.Messages, _, _ = d.e.admission.take(d.e.Base, most.Messages, false)
	}
	if !isReady || most.Messages == 0 {
		d.e.Barrier.Leave()
		return core.Most{}
	}
	w.grant(most)
	return most
}

func (w *worker) HandOver(ds []core.Delivery, next time.Time, more bool, err error) {
	defer w.d.e.Barrier.Leave()
	w.locked(ds, next, more, err)
}

func (w *worker) grant(most core.Most) {
	w.begin()
	w.asked = most
	w.d.reserved.Messages += most.Messages
	w.d.reserved.Bytes += most.Bytes
}

func (w *worker) retry() {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	w.ready = true
	w.d.assign()
}

func (w *worker) run() {
	for w.await() {
		w.lock()
	}
}

// await runs callbacks until the worker may call the store, or returns false after a stop.
func (w *worker) await() bool {
	d := w.d
	for {
		d.e.Barrier.Enter()
		d.mu.Lock()
		d.flush()
		granted := w.granted
		w.granted = false
		d.mu.Unlock()
		d.e.Barrier.Leave()
		if granted || d.stopped.Load() {
			return granted
		}
		<-w.woken
	}
}

func (w *worker) lock() {
	d := w.d
	d.e.Barrier.Enter()
	defer d.e.Barrier.Leave()
	d.e.Refresh(d.e.Base) // if the entity was deleted, this has closed the receivers, and the call finds nothing
	if d.sub == core.Main {
		n, again, err := d.e.admission.take(d.e.Base, w.asked.Messages, true)
		d.mu.Lock()
		d.reserved.Messages -= w.asked.Messages - n
		w.asked.Messages = n
		d.mu.Unlock()
		if !again.IsZero() || err != nil {
			w.locked(nil, again, false, err)
			return
		}
	}
	p := d.e.View().Queues[d.sub][w.index]
	ds, next, err := p.Lock(d.e.Base, core.LockRequest{Most: w.asked})
	w.locked(ds, next, w.asked.Left(ds, next, d.e.Now), err)
}

func (w *worker) locked(ds []core.Delivery, next time.Time, more bool, err error) {
	d := w.d
	var removals []removal
	d.mu.Lock()
	d.reserved.Messages -= w.asked.Messages
	d.reserved.Bytes -= w.asked.Bytes
	if d.sub == core.Main {
		d.e.admission.locked(w.asked.Messages, ds, nil)
	}
	surplus := d.share(ds, &removals)
	if len(removals) > 0 || len(surplus) > 0 {
		d.flush() // other receivers need not wait for the removal
		d.mu.Unlock()
		w.remove(d.e.View().Queues[d.sub][w.index], removals)
		d.release(surplus)
		d.mu.Lock()
	}
	began, ended := w.end(more, err)
	switch {
	case err != nil:
		w.after(w.backoff, w.retry)
	case !w.ready:
		w.wakeAt(next)
	}
	if began || ended {
		w.noteOutage(err)
	}
	d.checkDrains()
	d.assign()
	d.flush()
	d.mu.Unlock()
}

// remove completes the messages of receivers in ReceiveAndDelete mode, and gives these receivers
// what was removed. Messages that could not be removed stay locked until their locks expire, or are
// already locked by another receiver.
func (w *worker) remove(p core.Partition, removals []removal) {
	d := w.d
	n := 0
	for _, m := range removals {
		n += len(m.ds)
	}
	settlements := make([]core.Settlement, 0, n)
	for _, m := range removals {
		for i := range m.ds {
			settlements = append(settlements, core.Settlement{Token: m.ds[i].LockToken})
		}
	}
	errs := p.Settle(d.e.Base, settlements)
	d.e.noteSettled(d.e.Base, d.sub, settlements, errs)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range removals {
		gone, size := m.ds[:0], int64(core.SizeOf(m.ds))
		for i := range m.ds {
			if errs[i] == nil {
				each := m.ds[i]
				each.LockToken, each.LockedUntil = core.LockToken{}, time.Time{}
				gone = append(gone, each)
			}
		}
		failed := len(m.ds) - len(gone)
		errs = errs[len(m.ds):]
		m.r.inFlight -= len(m.ds)
		if m.r.closed {
			d.giveRemoved(gone)
			continue
		}
		m.r.change(failed, size-int64(core.SizeOf(gone)))
		if len(gone) > 0 {
			d.give(m.r, gone)
		}
	}
}

// wakeAt sets the timer to the next due time, if the store knows one. d.mu is held.
func (w *worker) wakeAt(next time.Time) {
	switch {
	case !next.IsZero():
		w.after(max(next.Sub(w.d.e.Now()), time.Millisecond), func() { w.Wake("") })
	case w.timer != nil:
		w.timer.Stop()
	}
}

func (w *worker) after(pause time.Duration, f func()) {
	if w.timer != nil {
		w.timer.Stop()
	}
	if !w.d.stopped.Load() {
		w.timer = time.AfterFunc(pause, f)
	}
}

// noteOutage logs that an outage has begun or, for a nil err, ended. d.mu is held.
func (w *worker) noteOutage(err error) {
	log := w.d.e.Log
	switch {
	case err == nil:
		log.Info("the partition answers again", "entity", w.d.e.View().Name, "partition", w.index)
	case core.CodeOf(err) == core.NotFound:
		w.d.e.Suspect()
	default:
		log.Warn("cannot lock messages, because the partition does not answer; trying again", "entity", w.d.e.View().Name, "partition", w.index, "err", err)
	}
}

const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 2 * time.Second
)

// poller decides when a partition is asked for messages or sessions: after a notification from the
// store, even one during a call; as long as answers say that there may be more; and, while the
// partition does not answer, after growing pauses. A mutex of its user guards it.
type poller struct {
	ready      bool
	busy       bool
	wokenSince bool // the store has sent a notification since the last call began
	calls      uint64
	backoff    time.Duration // the pause before the next call; 0 while the partition answers
}

// wake handles a notification from the store, and reports whether a call can begin now.
func (p *poller) wake() bool {
	p.wokenSince = true
	if p.busy || p.backoff > 0 {
		return false
	}
	p.ready = true
	return true
}

func (p *poller) begin() { p.busy, p.ready, p.wokenSince = true, false, false }

// end records that a call has ended. more means that the partition may have more messages or
// sessions. began means that an outage begins with err, ended that one ends with this answer.
func (p *poller) end(more bool, err error) (began, ended bool) {
	p.busy = false
	p.calls++
	if err != nil {
		began = p.backoff == 0
		p.backoff = min(max(2*p.backoff, firstBackoff), lastBackoff)
		return began, false
	}
	ended = p.backoff > 0
	p.ready, p.backoff = p.wokenSince || more, 0
	return false, ended
}

// ahead returns what p.calls will be when a call has asked for all that is available now.
func (p *poller) ahead() uint64 {
	n := p.calls
	if p.busy {
		n++
	}
	if p.ready || p.busy && p.wokenSince {
		n++
	}
	return n
}
