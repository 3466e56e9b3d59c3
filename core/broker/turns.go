package broker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// shortYield and longYield bound how long a lane leaves a partition to others
	// who have older messages of it under lock: one that moved messages within
	// the incumbency begins with the shorter, so that one gateway goes on and the
	// others stay out of its way.
	shortYield = 2 * time.Millisecond
	longYield  = 300 * time.Millisecond
	incumbency = time.Second
	// longestYield is how long a lane yields in all: who has them may be dead.
	longestYield = 5 * time.Second
	// lookBack is how many messages a lane looks at in each of maxGaps gaps to find
	// out whose turn it is.
	lookBack = 8
	maxGaps  = 4
)

// turns keep the order of a partition's messages where several gateways move
// them: one that finds it has been overtaken lets the other go first. A batch
// that follows the one before needs no look.
type turns struct {
	last  int64     // the highest number that was moved, or tried
	at    time.Time // when that was
	since time.Time // since when the lane yields; zero: it does not
	until time.Time // when it looks again, at one message
	pause time.Duration
}

// mayMove reports whether it is this lane's turn to move the messages it has
// locked. If not, it should release them and look again at turns.until.
func (l *lane) mayMove(ctx context.Context, p core.Partition, ds []core.Delivery) bool {
	t := &l.turns
	low := t.last
	if l.p.remote != "" {
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
	if high-low > int64(fresh) && l.overtaken(ctx, p, low, high, ds) {
		now := time.Now()
		if t.since.IsZero() {
			t.since, t.pause = now, longYield
			if now.Sub(t.at) < incumbency {
				t.pause = shortYield
			}
		}
		if now.Sub(t.since) < l.longestYield() {
			t.until = now.Add(t.pause/2 + rand.N(t.pause))
			t.pause = min(2*t.pause, longYield)
			return false
		}
	}
	*t = turns{last: high, at: time.Now()}
	return true
}

// overtaken reports whether there is a message between two numbers that waits for
// delivery and is not among those given: somebody else has it.
func (l *lane) overtaken(ctx context.Context, p core.Partition, low, high int64, ds []core.Delivery) bool {
	call, cancel := context.WithTimeout(ctx, pumpCall)
	defer cancel()
	mine := make(map[int64]bool, len(ds))
	for i := range ds {
		_, n := core.SplitSequenceNumber(ds[i].SequenceNumber)
		mine[n] = true
	}
	next, gaps := low+1, maxGaps
	if l.p.remote != "" {
		gaps += len(ds) // all there can be
	}
	for range gaps {
		for mine[next] {
			next++
		}
		if next >= high {
			return false
		}
		there, err := l.p.set.b.store.Peek(call, p, next, lookBack)
		if err != nil || len(there) == 0 {
			return err != nil && l.p.remote != ""
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

// longestYield is how long the lane yields in all. Where messages go to a remote
// it outlasts whoever waits for that.
func (l *lane) longestYield() time.Duration {
	if l.p.remote != "" {
		return remotePatience + pumpLock
	}
	return longestYield
}
