package forward

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// older is a partition in which another gateway has locked the message with this number.
type older struct {
	core.Operations
	number int64
}

func (o *older) Peek(_ context.Context, r core.PeekRequest) ([]core.Delivery, error) {
	if r.From > o.number {
		return nil, nil
	}
	return []core.Delivery{{BrokerProperties: core.BrokerProperties{SequenceNumber: o.number, State: core.Active}}}, nil
}

// A forwarder waits as long as another gateway moves older messages, and moves its own when one of
// these messages has stayed for longer than a forwarder's lock.
func TestAForwarderYieldsUntilAnOlderMessageStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &older{number: 1}
		p := core.Partition{Operations: o}
		pf := &partitionForwarder{parent: &forwarder{}}
		mayMove := func() bool {
			ds := []core.Delivery{{BrokerProperties: core.BrokerProperties{SequenceNumber: o.number + 50}}}
			may := pf.mayMove(t.Context(), p, ds)
			if !may {
				time.Sleep(time.Until(pf.lease.yieldUntil))
			}
			return may
		}
		for began := time.Now(); time.Since(began) < 5*LongestYield; o.number += 50 {
			if mayMove() {
				t.Fatalf("it moved a message after %v although another gateway moves older ones", time.Since(began))
			}
		}
		began := time.Now()
		for !mayMove() {
		}
		if waited := time.Since(began); waited < LongestYield || waited > LongestYield+2*LongYield {
			t.Errorf("it waited for %v, want %v", waited, LongestYield)
		}
	})
}
