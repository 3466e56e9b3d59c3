package broker

import (
	"context"
	"sync/atomic"
)

// pauseBarrier is what everybody goes through who takes messages out of entities without
// being asked to at that moment: workers, holders of sessions, partition forwarders. While it is
// shut nobody is inside.
type pauseBarrier struct {
	inside atomic.Int64
	paused atomic.Pointer[pausePeriod] // nil while it is open
	left   chan struct{}               // somebody left a closed barrier; holds at most one
	pauser chan struct{}               // holds one while nobody shuts it
	signal atomic.Pointer[pauseSignal]
}

// pausePeriod keeps a barrier closed.
type pausePeriod struct{ over chan struct{} }

// pauseSignal ends when the barrier is shut the next time.
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

// rearm begins another pause signal.
func (pb *pauseBarrier) rearm() {
	ctx, cancel := context.WithCancel(context.Background())
	pb.signal.Store(&pauseSignal{ctx, cancel})
}

// enter waits until the barrier is open. Whoever has entered must leave, and must not
// enter again before.
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

func (pb *pauseBarrier) leave() {
	if pb.inside.Add(-1) == 0 && pb.paused.Load() != nil {
		select {
		case pb.left <- struct{}{}:
		default:
		}
	}
}

// pausing is a context that ends when the barrier is to be shut, for those inside who
// would take long.
func (pb *pauseBarrier) pausing() context.Context { return pb.signal.Load() }

// pause lets nobody in any more, and waits until all have left. Unless it fails
// because ctx has ended the caller must open the barrier.
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
