package link

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core/fair"
)

// Work is a call of the broker, in its own goroutine. It returns a function, a job for the owner.
type Work = func(ctx context.Context) (then func())

// CallTimeout bounds calls for which the client has set no time-out.
const CallTimeout = time.Minute

const (
	freeCalls = 4
	maxCalls  = 64
)

// Calls makes the broker calls of one connection, each in a goroutine. A client can request
// thousands with one packet, and the stack of each takes fair.Call bytes, so calls for which there
// is no memory wait until others have ended. Only jobs of the owner may use a Calls.
type Calls struct {
	Ctx context.Context // context of the calls that begin from now on

	tasks  *sync.WaitGroup
	owner  *Owner
	memory *fair.Share
	failed func(error)

	running int
	waiting []waitingCall
	events  int
}

type waitingCall struct {
	ctx    context.Context
	cancel context.CancelFunc
	work   Work
}

// NewCalls returns a Calls without Ctx, whose goroutines belong to tasks. While freeCalls calls of
// Begin run, a further one takes fair.Call bytes of memory. If a call panics, failed runs as a job
// of o.
func NewCalls(tasks *sync.WaitGroup, o *Owner, memory *fair.Share, failed func(error)) *Calls {
	return &Calls{tasks: tasks, owner: o, memory: memory, failed: failed}
}

func (c *Calls) Busy() int { return c.running + len(c.waiting) }

func (c *Calls) Events() int { return c.events }

// Begin makes a call, at once or when others have ended. CallTimeout includes this wait.
func (c *Calls) Begin(work Work) {
	ctx, cancel := context.WithTimeout(c.Ctx, CallTimeout)
	if c.running < freeCalls || c.running < maxCalls && c.memory.Available(fair.Call) > 0 {
		c.run(ctx, cancel, work)
		return
	}
	c.waiting = append(c.waiting, waitingCall{ctx, cancel, work})
}

func (c *Calls) run(ctx context.Context, cancel context.CancelFunc, work Work) {
	if c.running++; c.running > freeCalls {
		c.memory.Add(fair.Call)
	}
	c.spawn(ctx, cancel, work, c.ended)
}

// Await makes a call that may wait long for an event. The call does not count towards the limits of
// Begin, so it keeps no other call waiting. cancel ends its context.
func (c *Calls) Await(timeout time.Duration, work Work) (cancel context.CancelFunc) {
	ctx, cancel := context.WithTimeout(c.Ctx, timeout)
	c.events++
	c.spawn(ctx, cancel, work, func() { c.events-- })
	return cancel
}

// spawn runs work in a goroutine. Then a job of the owner runs done, and the function from work.
func (c *Calls) spawn(ctx context.Context, cancel context.CancelFunc, work Work, done func()) {
	Go(c.tasks, func() {
		then, err := attempt(func() func() {
			defer cancel()
			return work(ctx)
		})
		c.owner.Do(func() {
			done()
			if err != nil {
				c.failed(err)
				return
			}
			then()
		})
	})
}

func (c *Calls) ended() {
	if c.running--; c.running >= freeCalls {
		c.memory.Add(-fair.Call)
	}
	if len(c.waiting) > 0 {
		next := c.waiting[0]
		c.waiting[0] = waitingCall{}
		c.waiting = c.waiting[1:]
		c.run(next.ctx, next.cancel, next.work)
	}
}
