package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/internal/wake"
)

// A second goroutine waits for the outcomes of a sender's messages.
type sender struct {
	run    *run
	id     uint32
	entity string
	link   SenderLink
	pace   pace
	limit  int64 // 0 until run.sendFor is over
	result histogram

	arrived chan struct{} // in mode Lone, receives when the message in flight has arrived; otherwise nil
}

type flight struct {
	wait   func(context.Context) error
	number uint64
	due    time.Duration
}

// send returns when all outcomes are known.
func (s *sender) send(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	flights := make(chan flight, s.run.o.InFlight) // sending waits when it is full
	var outcomes sync.WaitGroup
	outcomes.Go(func() {
		for f := range flights {
			if err := s.settle(ctx, f); err != nil {
				cancel(err)
			}
		}
	})
	err := s.post(ctx, flights)
	close(flights)
	outcomes.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (s *sender) post(ctx context.Context, flights chan<- flight) error {
	payload := make([]byte, s.run.o.Size)
	for number := uint64(0); s.limit == 0 || number < uint64(s.limit); number++ {
		due, ok := s.pace.next(ctx, s.run.elapsed)
		if !ok || s.run.sendFor > 0 && due >= s.run.sendFor {
			return nil
		}
		if len(payload) >= stampSize {
			stamp{s.run.id, s.id, number, due}.write(payload)
		}
		s.run.sent.Add(1)
		wait, err := s.sendOne(ctx, number, payload)
		if err != nil {
			return fmt.Errorf("cannot send to %s: %w", s.entity, err)
		}
		if s.arrived != nil {
			if err := s.settle(ctx, flight{wait, number, due}); err != nil {
				return err
			}
			select {
			case <-s.arrived:
				continue
			case <-ctx.Done():
				return nil // send returns the cause
			}
		}
		select {
		case flights <- flight{wait, number, due}:
		case <-ctx.Done():
			return nil // send returns the cause
		}
	}
	return nil
}

func (s *sender) sendOne(ctx context.Context, number uint64, payload []byte) (wait func(context.Context) error, err error) {
	if link, ok := s.link.(sessionLink); ok && s.run.o.Mode == Sessions {
		return link.sendToSession(ctx, fmt.Sprintf("%d-%d", s.id, number), payload)
	}
	return s.link.Send(ctx, payload)
}

func (s *sender) settle(ctx context.Context, f flight) error {
	if err := f.wait(ctx); err != nil {
		return fmt.Errorf("a send to %s failed: %w", s.entity, err)
	}
	s.result.add(s.run.elapsed() - f.due)
	if s.run.o.Verify {
		s.run.ledger.acknowledge(s.id, f.number)
	}
	s.run.acked.Add(1)
	return nil
}

// With the zero value, messages are due at once.
type pace struct {
	interval time.Duration
	at       time.Duration // when the next message is due
}

// next waits until the next message is due, and returns that time. ok is false if ctx has ended.
// After a stall, the messages that were due meanwhile follow at once, each with its due time. The
// timer may be up to a millisecond late, which does not count as latency.
func (p *pace) next(ctx context.Context, elapsed func() time.Duration) (due time.Duration, ok bool) {
	now := elapsed()
	if p.interval == 0 {
		return now, ctx.Err() == nil
	}
	due = p.at
	p.at += p.interval
	if wait := due - now; wait > 0 && wake.After(ctx, wait) {
		due = elapsed()
	}
	return due, ctx.Err() == nil
}
