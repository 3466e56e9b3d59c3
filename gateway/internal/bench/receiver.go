package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

type receiver struct {
	run    *run
	entity string
	link   ReceiverLink
	order  order
	result histogram

	spent atomic.Int64 // settled messages
}

var errForeign = errors.New("the entity contains messages that this command did not send: use another entity, or --verify=false to consume them")

// receive receives messages and settles them until an error, or until done ends.
func (r *receiver) receive(ctx, done context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	taking, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(done, stop)()

	if err := r.link.IssueCredit(r.run.o.Credit); err != nil {
		return fmt.Errorf("cannot issue credit to %s: %w", r.entity, err)
	}
	var settling sync.WaitGroup
	for {
		m, err := r.link.Receive(taking)
		if err != nil {
			settling.Wait()
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			if done.Err() != nil {
				return nil
			}
			return fmt.Errorf("cannot receive from %s: %w", r.entity, err)
		}
		if err := r.book(m); err != nil {
			cancel(err)
			_ = m.Release(context.WithoutCancel(ctx)) // otherwise the message would wait for the end of its lock
			continue
		}
		r.run.taken.Add(1)
		settle := func() {
			if err := m.Accept(ctx); err != nil {
				cancel(fmt.Errorf("cannot accept a message of %s: %w", r.entity, err))
				return
			}
			r.run.settled.Add(1)
			if err := r.replenish(); err != nil {
				cancel(err)
			}
			r.run.announce(m)
		}
		if r.run.o.Settle == SettleBatch {
			settling.Go(settle) // as many at once as the credit allows
		} else {
			settle()
		}
	}
}

// replenish issues credit for settled messages, half the credit at a time, so that at most Credit
// messages are in flight or unsettled.
func (r *receiver) replenish() error {
	half := int64(max(r.run.o.Credit/2, 1))
	if r.spent.Add(1)%half != 0 {
		return nil
	}
	if err := r.link.IssueCredit(int(half)); err != nil {
		return fmt.Errorf("cannot issue credit to %s: %w", r.entity, err)
	}
	return nil
}

func (r *receiver) book(m Delivery) error {
	now := r.run.elapsed()
	s, ok := readStamp(m.Payload())
	switch {
	case !ok && r.run.o.Verify:
		return errForeign
	case !ok:
		r.run.received.Add(1)
	case s.run != r.run.id || int(s.sender) >= r.run.o.Senders:
		r.run.stale.Add(1)
		return nil
	case !r.run.o.Verify:
		r.run.received.Add(1)
		r.result.add(now - s.due)
	case r.run.ledger.arrive(s.sender, s.number):
		r.run.received.Add(1)
		r.order.see(s.sender, s.number)
		r.result.add(now - s.due)
	}
	r.run.arrivedAt(now)
	return nil
}
