package webhooks

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
)

func (w *pushing) sessions(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	places := semaphore.NewWeighted(int64(w.Concurrent))
	for places.Acquire(ctx, 1) == nil {
		arrived, closed := make(chan core.Delivery, 1), make(chan struct{})
		s, err := w.broker.AcceptSession(ctx, w.id, w.from, core.SessionOptions{Next: true, ReceiverOptions: core.ReceiverOptions{Deliver: bridges.Into(arrived), Closed: func(error) { close(closed) }}})
		if err != nil {
			places.Release(1)
			if core.CodeOf(err) != core.Timeout { // a time-out means that no session has messages
				w.end(err)
			}
			continue
		}
		running.Go(func() {
			defer places.Release(1)
			defer s.Close() // unlocks a message that was not settled
			defer w.keep(func(ctx context.Context) error { _, err := s.Renew(ctx); return err })()
			w.session(ctx, s, arrived, closed)
		})
	}
}

// session delivers the messages of a session in order, until one fails, which pauses the session.
func (w *pushing) session(ctx context.Context, s core.Session, arrived <-chan core.Delivery, closed <-chan struct{}) {
	memory := w.memory()
	defer memory.Close()
	idle := time.NewTimer(sessionIdle)
	defer idle.Stop()
	for memory.AwaitRoom(ctx, memory.next) {
		s.AddCredit(1, core.AnyMessage)
		idle.Reset(sessionIdle)
		select {
		case d := <-arrived:
			if ctx.Err() != nil {
				return
			}
			memory.hold(&d)
			settlement := w.attempt(d)
			w.settle(d, settlement)
			memory.Release()
			if settlement.Outcome == core.Abandon {
				return
			}
		case <-idle.C:
			return
		case <-closed:
			return
		case <-ctx.Done():
			return
		}
	}
}
