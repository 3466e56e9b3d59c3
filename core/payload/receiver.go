package payload

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/intercept"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

// receiver is the intercept.Stage of a receiver. Deliveries wait for a worker in a queue whose
// length is limited by credit. The worker runs while the queue is not empty. Serializers may take
// time, and the broker must not wait for them.
type receiver struct {
	t         *Transcoder
	plan      plan
	link      *intercept.Link
	address   core.Address
	bridge    func([]core.Delivery)
	deletes   bool // the bridge wants ReceiveAndDelete
	inSession bool // the end of the session releases its locks
	ctx       context.Context
	cancel    context.CancelFunc

	delivery sync.Mutex // held while the bridge is called, and while deliveries for the bridge are completed
	closed   bool

	mu      sync.Mutex
	queue   []job
	working bool
}

// job is a delivery or, with drained, the end of a Drain.
type job struct {
	core.Delivery
	drained func()
}

// With receive-and-delete, the Transcoder locks messages and then deletes them, because deleted
// ones could not be dead-lettered or released.
func (t *Transcoder) receive(p plan, c *intercept.Call) {
	o := c.Options
	r := &receiver{t: t, plan: p, link: c.Link, address: c.Address, bridge: o.Deliver, deletes: o.Mode == core.ReceiveAndDelete}
	r.inSession = c.Op == intercept.AcceptSession && o.Sharing == core.Exclusive && o.TakeOver.IsZero() // any other session may continue without this receiver
	r.ctx, r.cancel = context.WithCancel(context.Background())
	o.Deliver, o.Accept, o.Mode = r.deliver, "", core.PeekLock
	c.Link.Keep(t, r)
	c.Link.Add(r)
}

func (r *receiver) deliver(ds []core.Delivery) {
	jobs := make([]job, len(ds))
	for i := range ds {
		jobs[i].Delivery = ds[i]
	}
	r.enqueue(jobs...)
}

func (r *receiver) Drained(then func()) { r.enqueue(job{drained: then}) }

func (r *receiver) enqueue(jobs ...job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, jobs...)
	if !r.working {
		r.working = true
		r.t.workers.Go(r.work)
	}
}

func (r *receiver) work() {
	for {
		r.mu.Lock()
		jobs := r.queue
		r.queue = nil
		r.working = len(jobs) > 0
		r.mu.Unlock()
		if len(jobs) == 0 {
			return
		}
		r.do(jobs)
	}
}

func (r *receiver) do(jobs []job) {
	var ready []core.Delivery
	for i := range jobs {
		j := &jobs[i]
		if j.drained != nil {
			r.handOver(ready)
			ready = nil
			j.drained()
			continue
		}
		if r.ctx.Err() != nil { // no receiver will get it
			ready = append(ready, j.Delivery)
			continue
		}
		m, err := r.plan.chain.Transcode(r.ctx, j.Message, r.plan.accept, r.plan.checked)
		if isPassing(err) && r.plan.checked {
			r.handOver(ready)
			ready = nil
			m, err = r.retry(j.Delivery)
		}
		if r.isDelivered(j.Delivery, err) {
			r.link.Refund(0, j.Message.Size()-m.Size())
			j.Message = m
			ready = append(ready, j.Delivery)
		}
	}
	r.handOver(ready)
}

// The shortest and the longest pause between attempts while a serializer is Busy.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// retry repeats the conversion while a serializer is Busy, up to 3/4 of d's remaining lock time.
func (r *receiver) retry(d core.Delivery) (*core.Message, error) {
	ctx, cancel := context.WithTimeout(r.ctx, d.LockedUntil.Sub(r.t.Now())*3/4)
	defer cancel()
	for pause := firstPause; wake.After(ctx, pause); pause = min(2*pause, lastPause) {
		if m, err := r.plan.chain.Transcode(ctx, d.Message, r.plan.accept, true); !isPassing(err) {
			return m, err
		}
	}
	return d.Message, ctx.Err()
}

// isDelivered reports whether the bridge gets a message after a conversion that returned err, and
// settles a message that it does not get.
func (r *receiver) isDelivered(d core.Delivery, err error) bool {
	undecodable, ok := errors.AsType[*core.Undecodable](err)
	switch {
	case !r.plan.checked:
		return true
	case ok:
		r.settle([]core.Delivery{d}, core.DeadLetterOutcome, core.ReasonProperties(core.ReasonDeserializationFailed, undecodable.Error()))
	case isPassing(err):
		r.settle([]core.Delivery{d}, core.Release, core.Properties{})
	default: // decoded, or a payload that a Chain does not decode
		return true
	}
	r.link.Refund(1, d.Size())
	return false
}

func (r *receiver) settle(ds []core.Delivery, outcome core.Outcome, p core.Properties) (settled []core.Delivery) {
	if len(ds) == 0 {
		return nil
	}
	for i, err := range r.link.Settle(r.ctx, ds, core.Settlement{Outcome: outcome, Properties: p}) {
		if err == nil {
			settled = append(settled, ds[i])
			continue
		}
		r.t.Logger.Debug("cannot settle a message that was not delivered", "entity", r.address.String(), "seq", ds[i].SequenceNumber, "outcome", outcome, "err", err)
	}
	return settled
}

func (r *receiver) handOver(ds []core.Delivery) {
	r.delivery.Lock()
	defer r.delivery.Unlock()
	if r.closed {
		if !r.inSession {
			r.settle(ds, core.Release, core.Properties{})
		}
		return
	}
	if r.deletes {
		n, size := len(ds), core.SizeOf(ds)
		ds = r.settle(ds, core.Complete, core.Properties{})
		r.link.Refund(n-len(ds), size-core.SizeOf(ds))
		for i := range ds {
			ds[i].LockToken, ds[i].LockedUntil = core.LockToken{}, time.Time{}
		}
	}
	if len(ds) > 0 {
		r.bridge(ds)
	}
}

// Close stops the receiver. The messages that the worker has are released by the worker or, in a
// session, by the end of the session.
func (r *receiver) Close() {
	r.cancel()
	r.delivery.Lock()
	defer r.delivery.Unlock()
	r.closed = true
}
