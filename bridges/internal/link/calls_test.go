package link

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core/fair"
)

// callers makes calls that end when the test lets them.
type callers struct {
	*Calls
	pool   *fair.Pool
	owner  *Owner
	tasks  sync.WaitGroup
	failed []error

	end     chan struct{}
	running int
	ended   []int // the calls, in the order of their ends
}

func newCallers(memory int64) *callers {
	c := &callers{pool: fair.New(memory, nil, nil), end: make(chan struct{})}
	c.owner = New(func() {}, nil)
	c.Calls = NewCalls(&c.tasks, c.owner, c.pool.Share(func() {}), func(err error) { c.failed = append(c.failed, err) })
	c.Ctx = context.Background()
	return c
}

// begin begins n calls in one job, as many frames of one packet do.
func (c *callers) begin(n int) {
	c.owner.Do(func() {
		for i := range n {
			c.Begin(func(context.Context) func() {
				c.owner.Do(func() { c.running++ })
				<-c.end
				return func() {
					c.running--
					c.ended = append(c.ended, i)
				}
			})
		}
	})
	synctest.Wait()
}

func TestFewOfManyCallsAreInProgress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		memory int64
		want   int
	}{
		"enough memory": {1 << 30, maxCalls},
		"no memory":     {1, freeCalls},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const all = 1000
				calls := newCallers(c.memory)
				calls.begin(all)
				if held := calls.pool.Stats().Held; calls.running != c.want || calls.Busy() != all || held != int64(c.want-freeCalls)*fair.Call {
					t.Errorf("%d of %d calls are in progress and hold %d bytes, want %d of %d", calls.running, calls.Busy(), held, c.want, all)
				}
				close(calls.end)
				synctest.Wait()
				if held := calls.pool.Stats().Held; len(calls.ended) != all || calls.Busy() != 0 || held != 0 {
					t.Errorf("%d calls have ended and %d have not, which hold %d bytes, want all %d to end", len(calls.ended), calls.Busy(), held, all)
				}
			})
		})
	}
}

// A call that waits for an event does not take the place of others.
func TestCallsDoNotWaitForEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(1 << 30)
		event := make(chan struct{})
		c.owner.Do(func() {
			for range 2 * maxCalls {
				c.Await(time.Hour, func(context.Context) func() { <-event; return func() {} })
			}
		})
		close(c.end)
		c.begin(10)
		if len(c.ended) != 10 || c.Events() != 2*maxCalls {
			t.Errorf("%d calls have ended while %d wait for events, want 10 while %d wait", len(c.ended), c.Events(), 2*maxCalls)
		}
		close(event)
		synctest.Wait()
		if c.Events() != 0 {
			t.Errorf("%d calls still wait for events", c.Events())
		}
	})
}

// A waiting call learns that its context has ended, and a panic lets the next one begin.
func TestWaitingCallsBeginAfterAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(1 << 30)
		var got error
		c.begin(maxCalls)
		c.owner.Do(func() {
			for _, work := range []Work{
				func(context.Context) func() { panic("fault") },
				func(ctx context.Context) func() { return func() { got = context.Cause(ctx) } },
			} {
				ctx, cancel := context.WithCancel(context.Background())
				c.Ctx = ctx
				c.Begin(work)
				cancel()
			}
		})
		close(c.end)
		synctest.Wait()
		if len(c.failed) != 1 || !strings.Contains(c.failed[0].Error(), "panic: fault") {
			t.Errorf("got %v, want the panic", c.failed)
		}
		if !errors.Is(got, context.Canceled) || c.Busy() != 0 {
			t.Errorf("the last call got %v and %d are in progress, want it to begin with a context that has ended", got, c.Busy())
		}
	})
}
