// Package pause pauses the background work of a broker.
package pause

import (
	"context"
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/internal/wake"
)

// Barrier pauses background work. Workers, session holders and partition forwarders enter it before
// each step, and leave it afterwards. While it is closed, nobody is inside.
type Barrier struct {
	inside atomic.Int64
	paused atomic.Pointer[pausePeriod] // nil while the barrier is open
	left   wake.Signal                 // set when the barrier is closed and no step is inside any more
	pauser chan struct{}               // has one element unless a caller has closed the barrier
	signal atomic.Pointer[pauseSignal]
}

type pausePeriod struct{ over chan struct{} }

type pauseSignal struct {
	context.Context
	cancel context.CancelFunc
}

func NewBarrier() *Barrier {
	pb := &Barrier{left: wake.New(), pauser: make(chan struct{}, 1)}
	pb.pauser <- struct{}{}
	pb.rearm()
	return pb
}

func (pb *Barrier) rearm() {
	ctx, cancel := context.WithCancel(context.Background())
	pb.signal.Store(&pauseSignal{ctx, cancel})
}

// Enter waits until the barrier is open. The caller must then call Leave.
func (pb *Barrier) Enter() {
	for {
		pb.inside.Add(1)
		b := pb.paused.Load()
		if b == nil {
			return
		}
		pb.Leave()
		<-b.over
	}
}

func (pb *Barrier) TryEnter() bool {
	pb.inside.Add(1)
	if pb.paused.Load() == nil {
		return true
	}
	pb.Leave()
	return false
}

func (pb *Barrier) Leave() {
	if pb.inside.Add(-1) == 0 && pb.paused.Load() != nil {
		pb.left.Set()
	}
}

// Pausing returns a context that ends when the barrier is about to close, for long steps.
func (pb *Barrier) Pausing() context.Context { return pb.signal.Load() }

// Pause closes the barrier and waits until nobody is inside. If it succeeds, call Resume.
func (pb *Barrier) Pause(ctx context.Context) error {
	select {
	case <-pb.pauser:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	pb.paused.Store(&pausePeriod{make(chan struct{})})
	pb.signal.Load().cancel()
	for pb.inside.Load() > 0 {
		select {
		case <-pb.left:
		case <-ctx.Done():
			pb.Resume()
			return context.Cause(ctx)
		}
	}
	return nil
}

func (pb *Barrier) Resume() {
	pb.rearm()
	close(pb.paused.Swap(nil).over)
	pb.pauser <- struct{}{}
}
