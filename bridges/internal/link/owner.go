// Package link contains the parts of connections that several bridges use.
package link

import (
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core/fair"
)

// Owner runs the jobs of one connection one at a time and in order, so that jobs need no locks. It
// has no goroutine: the goroutine that submits a job runs it, and then the jobs that others have
// submitted meanwhile. So a job usually waits for no other goroutine. Jobs must not block.
type Owner struct {
	after  func() // runs after the queued jobs
	failed func(error)
	ended  chan struct{} // closes when the Owner has ended and no job runs

	mu      sync.Mutex
	jobs    []func()
	running bool
	stopped bool

	spare []func() // only the goroutine that runs jobs uses it
}

// New returns an Owner. It calls after when it has run all queued jobs, to act on their results
// together. If a job panics, it calls failed, and runs no further jobs.
func New(after func(), failed func(error)) *Owner {
	return &Owner{after: after, failed: failed, ended: make(chan struct{})}
}

// Do runs f. If another goroutine is running jobs, that goroutine runs f, perhaps after Do has
// returned. The caller must not hold locks that jobs take.
func (o *Owner) Do(f func()) {
	if o.add(f) {
		o.run()
	}
}

// Begin is Do for a goroutine that has just started, such as a timer's: it grows the stack first.
func (o *Owner) Begin(f func()) {
	if o.add(f) {
		growStack(0)
		o.run()
	}
}

// Post runs f in another goroutine. It never blocks.
func (o *Owner) Post(f func()) {
	if o.add(f) {
		go func() {
			growStack(0)
			o.run()
		}()
	}
}

func (o *Owner) add(f func()) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.jobs = append(o.jobs, f)
	first = !o.running && !o.stopped
	o.running = o.running || first
	return first
}

func (o *Owner) run() {
	defer func() {
		if r := recover(); r != nil {
			o.Stop()
			o.failed(fmt.Errorf("panic: %v\n%s", r, debug.Stack()))
			close(o.ended)
		}
	}()
	for {
		jobs, ok := o.next()
		if !ok {
			return
		}
		for i, job := range jobs {
			job()
			jobs[i] = nil
		}
		o.spare = jobs
		o.after()
	}
}

func (o *Owner) next() (jobs []func(), ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.jobs) == 0 || o.stopped {
		o.running = false
		if o.stopped {
			close(o.ended)
		}
		return nil, false
	}
	jobs, o.jobs, o.spare = o.jobs, o.spare[:0], nil
	return jobs, true
}

func (o *Owner) Stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped = true
}

func (o *Owner) Ended() <-chan struct{} { return o.ended }

// Rest waits for fair.AfterRefusal, before a connection is read again after a refused batch. It
// returns false if the Owner ends first.
func (o *Owner) Rest() bool {
	select {
	case <-time.After(fair.AfterRefusal):
		return true
	case <-o.ended:
		return false
	}
}

// Finish runs the jobs that were added after the end of the Owner, or returns false.
func (o *Owner) Finish() bool {
	o.mu.Lock()
	jobs := o.jobs
	o.jobs = nil
	o.mu.Unlock()
	for _, job := range jobs {
		job()
	}
	return len(jobs) > 0
}

func attempt(work func() (then func())) (then func(), err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return work(), nil
}

// End calls letGo, which releases what a closed connection uses, and waits for the connection's
// calls. It repeats both until no call has left a job.
func End(tasks *sync.WaitGroup, o *Owner, log *slog.Logger, letGo func()) {
	defer func() {
		if r := recover(); r != nil { // a job that has panicked before may have left an inconsistent state
			log.Error("connection", "err", r, "stack", string(debug.Stack()))
		}
	}()
	letGo()
	for tasks.Wait(); o.Finish(); tasks.Wait() {
		letGo()
	}
}

const stackSize = 8 << 10

// growStack gives a new goroutine its stack at once. Otherwise the stack grows in several steps,
// each of which copies it. That took 20 % of the time of a gateway with few clients. The array is
// indexed by an argument, because the compiler would otherwise leave it out.
//
//go:noinline
func growStack(i int) byte {
	var room [stackSize]byte
	room[i] = 1
	return room[stackSize-1-i]
}

// Go runs f in a goroutine with enough stack for calls of the broker.
func Go(wg *sync.WaitGroup, f func()) {
	wg.Go(func() {
		growStack(0)
		f()
	})
}

// beat is the interval at which the timers of all connections fire together, unless they are due
// soon: waking up for one timer costs more than its work.
const beat = time.Second

// Leeway is how much earlier than its time a Timer may fire.
const Leeway = beat

var beginning = time.Now()

// Timer wakes an Owner at a given time. Only jobs of the owner may use it.
type Timer struct {
	timer *time.Timer
	armed time.Time // when the timer fires; zero for never
}

// NewTimer returns a Timer that is not armed. When it fires, o calls the first argument of New.
func NewTimer(o *Owner) *Timer {
	t := &Timer{}
	t.timer = time.AfterFunc(math.MaxInt64, func() { o.Begin(func() { t.armed = time.Time{} }) })
	return t
}

// Arm makes the timer fire at the given time, or up to Leeway earlier. It does nothing if that time
// is zero, or if the timer fires before it anyway.
func (t *Timer) Arm(at time.Time) {
	if at.IsZero() || !t.armed.IsZero() && !at.Before(t.armed) {
		return
	}
	t.armed = at
	left := time.Until(at)
	if left > 2*beat {
		left -= (at.Sub(beginning)%beat + beat) % beat
	}
	t.timer.Reset(left)
}

func (t *Timer) Stop() { t.timer.Stop() }
