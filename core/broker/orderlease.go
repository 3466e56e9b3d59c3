package broker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// shortYield and longYield bound how long a partition forwarder leaves a partition to others
	// who have older messages of it under lock: one that moved messages within
	// the incumbency begins with the shorter, so that one gateway goes on and the
	// others stay out of its way.
	shortYield    = 2 * time.Millisecond
	longYield     = 300 * time.Millisecond
	leaseDuration = time.Second
	// longestYield is how long a partition forwarder yields in all: who has them may be dead.
	longestYield = 5 * time.Second
	// lookBack is how many messages a partition forwarder looks at in each of maxGaps gaps to find
	// out whose turn it is.
	lookBack = 8
	maxGaps  = 4
)

// orderLease keeps the order of a partition's messages where several gateways move
// them: one that finds it has been overtaken lets the other go first. A batch
// that follows the one before needs no look.
type orderLease struct {
	highest       int64     // the highest number that was moved, or tried
	movedAt       time.Time // when that was
	yieldingSince time.Time // since when the partition forwarder yields; zero: it does not
	yieldUntil    time.Time // when it looks again, at one message
	pause         time.Duration
}

// mayMove reports whether it is this partition forwarder's turn to move the messages it has
// locked. If not, it should release them and look again at lease.yieldUntil.
func (pf *partitionForwarder) mayMove(ctx context.Context, p core.Partition, ds []core.Delivery) bool {
	lease := &pf.lease
	low := lease.highest
	if pf.parent.remote != "" {
		low = 0 // what is in front may have been given back, by whomever
	}
	high, fresh := low, 0 // and how many are beyond low
	for i := range ds {
		_, n := core.SplitSequenceNumber(ds[i].SequenceNumber)
		if n > low {
			fresh++
		}
		high = max(high, n)
	}
	if high-low > int64(fresh) && pf.othersHoldOlder(ctx, p, low, high, ds) {
		now := time.Now()
		if lease.yieldingSince.IsZero() {
			lease.yieldingSince, lease.pause = now, longYield
			if now.Sub(lease.movedAt) < leaseDuration {
				lease.pause = shortYield
			}
		}
		if now.Sub(lease.yieldingSince) < pf.longestYield() {
			lease.yieldUntil = now.Add(lease.pause/2 + rand.N(lease.pause))
			lease.pause = min(2*lease.pause, longYield)
			return false
		}
	}
	*lease = orderLease{highest: high, movedAt: time.Now()}
	return true
}

// othersHoldOlder reports whether there is a message between two numbers that waits for
// delivery and is not among those given: somebody else has it.
func (pf *partitionForwarder) othersHoldOlder(ctx context.Context, p core.Partition, low, high int64, ds []core.Delivery) bool {
	call, cancel := context.WithTimeout(ctx, forwardCallTimeout)
	defer cancel()
	mine := make(map[int64]bool, len(ds))
	for i := range ds {
		_, n := core.SplitSequenceNumber(ds[i].SequenceNumber)
		mine[n] = true
	}
	next, gaps := low+1, maxGaps
	if pf.parent.remote != "" {
		gaps += len(ds) // all there can be
	}
	for range gaps {
		for mine[next] {
			next++
		}
		if next >= high {
			return false
		}
		there, err := pf.parent.set.b.store.Peek(call, p, next, lookBack)
		if err != nil || len(there) == 0 {
			return err != nil && pf.parent.remote != ""
		}
		for i := range there {
			_, next = core.SplitSequenceNumber(there[i].SequenceNumber)
			if next >= high {
				return false
			}
			if mine[next] {
				break
			}
			if there[i].State == core.Active {
				return true
			}
			next++
		}
	}
	return false
}

// longestYield is how long the partition forwarder yields in all. Where messages go to a remote
// it outlasts whoever waits for that.
func (pf *partitionForwarder) longestYield() time.Duration {
	if pf.parent.remote != "" {
		return remoteTimeout + forwardLock
	}
	return longestYield
}
