package broker

import (
	"context"
	"sync/atomic"
)

// pauseBarrier stops background work for a while. Workers, session holders and partition forwarders
// pass it before each step; while it is closed, none of them is inside.
type pauseBarrier struct {
	inside atomic.Int64
	paused atomic.Pointer[pausePeriod] // nil while the barrier is open
	left   chan struct{}               // the last one inside a closed barrier has left; holds at most one
	pauser chan struct{}               // holds one while no caller has closed the barrier
	signal atomic.Pointer[pauseSignal]
}

// pausePeriod ends when the barrier opens again.
type pausePeriod struct{ over chan struct{} }

// pauseSignal is a context that ends when the barrier closes the next time.
type pauseSignal struct {
	context.Context
	cancel context.CancelFunc
}

func newPauseBarrier() *pauseBarrier {
	pb := &pauseBarrier{left: make(chan struct{}, 1), pauser: make(chan struct{}, 1)}
	pb.pauser <- struct{}{}
	pb.rearm()
	return pb
}

// rearm makes a new pause signal.
func (pb *pauseBarrier) rearm() {
	ctx, cancel := context.WithCancel(context.Background())
	pb.signal.Store(&pauseSignal{ctx, cancel})
}

// enter waits until the barrier is open. The caller must leave, and must not enter again before.
func (pb *pauseBarrier) enter() {
	for {
		pb.inside.Add(1)
		b := pb.paused.Load()
		if b == nil {
			return
		}
		pb.leave()
		<-b.over
	}
}

// tryEnter is enter for callers that must not wait: it returns false while the barrier is closed.
func (pb *pauseBarrier) tryEnter() bool {
	pb.inside.Add(1)
	if pb.paused.Load() == nil {
		return true
	}
	pb.leave()
	return false
}

func (pb *pauseBarrier) leave() {
	if pb.inside.Add(-1) == 0 && pb.paused.Load() != nil {
		select {
		case pb.left <- struct{}{}:
		default:
		}
	}
}

// pausing is a context that ends when the barrier is about to close, for long steps inside.
func (pb *pauseBarrier) pausing() context.Context { return pb.signal.Load() }

// pause closes the barrier and waits until no step is inside. Unless it fails because ctx has
// ended, the caller must resume.
func (pb *pauseBarrier) pause(ctx context.Context) error {
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
			pb.resume()
			return context.Cause(ctx)
		}
	}
	return nil
}

func (pb *pauseBarrier) resume() {
	pb.rearm()
	close(pb.paused.Swap(nil).over)
	pb.pauser <- struct{}{}
}
