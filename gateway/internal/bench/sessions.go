package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// acceptSessions sends one message to each session. Then each receiver empties one session at a
// time.
func (r *run) acceptSessions(ctx context.Context, l *links) error {
	messages, _ := r.o.limits()
	r.share(l, messages)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := watchdog{run: r, lost: make(chan struct{})}
	var watching, receivers sync.WaitGroup
	watching.Go(func() { w.watch(ctx, cancel) })
	watching.Go(func() {
		select {
		case <-w.lost:
			cancel(fmt.Errorf("no session became free within %v", r.o.Patience))
		case <-ctx.Done():
		}
	})
	r.send(ctx, cancel, l)
	r.endPhase("fill", r.acked.Load())

	var begun atomic.Int64
	var mu sync.Mutex // guards r.sessions and l.receivers
	for i := range r.o.Receivers {
		receivers.Go(func() {
			var took histogram
			taker := r.newReceiver(i, nil)
			for begun.Add(1) <= r.acked.Load() && ctx.Err() == nil {
				from := r.elapsed()
				if err := r.acceptSession(ctx, l.conns[i%len(l.conns)], taker); err != nil {
					cancel(err)
					break
				}
				took.add(r.elapsed() - from)
			}
			mu.Lock()
			defer mu.Unlock()
			r.sessions.merge(&took)
			l.receivers = append(l.receivers, taker)
		})
	}
	receivers.Wait()
	r.endPhase("accept", r.received.Load())
	err := context.Cause(ctx)
	cancel(nil)
	watching.Wait()
	return err
}

func (r *run) acceptSession(ctx context.Context, c Connection, taker *receiver) error {
	conn, ok := c.(sessionConnection)
	if !ok {
		return errors.New("--mode sessions requires AMQP: use amqp:// or amqps:// in --url")
	}
	link, release, err := conn.acceptSession(ctx, taker.entity, r.o.receiveOptions())
	if err != nil {
		return err
	}
	taker.link = link
	if err := taker.link.IssueCredit(1); err != nil {
		return fmt.Errorf("cannot issue credit to %s: %w", taker.entity, err)
	}
	m, err := link.Receive(ctx)
	if err != nil {
		return fmt.Errorf("cannot receive from a session of %s: %w", taker.entity, err)
	}
	if err := taker.book(m); err != nil {
		return err
	}
	r.taken.Add(1)
	if err := m.Accept(ctx); err != nil {
		return fmt.Errorf("cannot accept a message of %s: %w", taker.entity, err)
	}
	r.settled.Add(1)
	if err := release(ctx); err != nil {
		return fmt.Errorf("cannot release a session of %s: %w", taker.entity, err)
	}
	return nil
}
