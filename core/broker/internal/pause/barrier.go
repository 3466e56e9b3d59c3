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
	period atomic.Pointer[period]
	left   wake.Signal   // set when the barrier is closed and no step is inside any more
	pauser chan struct{} // has one element unless a caller has closed the barrier
}

// period is the time from one opening of the barrier to the next. Its context ends when the barrier
// closes.
type period struct {
	context.Context
	cancel context.CancelFunc
	over   chan struct{}
}

func NewBarrier() *Barrier {
	pb := &Barrier{left: wake.New(), pauser: make(chan struct{}, 1)}
	pb.pauser <- struct{}{}
	pb.open()
	return pb
}

func (pb *Barrier) open() {
	ctx, cancel := context.WithCancel(context.Background())
	pb.period.Store(&period{ctx, cancel, make(chan struct{})})
}

// Enter waits until the barrier is open. The caller must then call Leave.
func (pb *Barrier) Enter() {
	for {
		now := pb.period.Load()
		if pb.TryEnter() {
			return
		}
		<-now.over
	}
}

func (pb *Barrier) TryEnter() bool {
	pb.inside.Add(1)
	if pb.Pausing().Err() == nil {
		return true
	}
	pb.Leave()
	return false
}

func (pb *Barrier) Leave() {
	if pb.inside.Add(-1) == 0 && pb.Pausing().Err() != nil {
		pb.left.Set()
	}
}

// Pausing returns a context that ends when the barrier is about to close, for long steps.
func (pb *Barrier) Pausing() context.Context { return pb.period.Load() }

// Pause closes the barrier and waits until nobody is inside. If it succeeds, call Resume.
func (pb *Barrier) Pause(ctx context.Context) error {
	select {
	case <-pb.pauser:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	pb.period.Load().cancel()
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
	over := pb.period.Load().over
	pb.open()
	close(over)
	pb.pauser <- struct{}{}
}
