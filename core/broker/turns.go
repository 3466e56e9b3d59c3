package broker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// shortYield and longYield are how long a lane leaves a partition to others
	// who have older messages of it under lock: one that moved messages within
	// the incumbency tries again soon, so that one gateway goes on and the others
	// stay out of its way.
	shortYield = 2 * time.Millisecond
	longYield  = 300 * time.Millisecond
	incumbency = time.Second
	// longestYield is how long a lane yields in all: who has them may be dead.
	longestYield = 5 * time.Second
	// lookBack is how many messages a lane looks at to find out whose turn it is.
	lookBack = 256
)

// turns keep the order of a partition's messages where several gateways move
// them: one that finds it has been overtaken lets the other go first. A batch
// that follows the one before needs no look.
type turns struct {
	last  int64     // the highest number that was moved, or tried
	at    time.Time // when that was
	since time.Time // since when the lane yields; zero: it does not
	until time.Time // when it looks again
}

// mayMove reports whether it is this lane's turn to move the messages it has
// locked. If not, it should release them and look again at turns.until.
func (l *lane) mayMove(ctx context.Context, p core.Partition, ds []core.Delivery) bool {
	t := &l.turns
	low, high := t.last, t.last
	fresh := 0 // beyond last
	for i := range ds {
		_, n := core.SplitSequenceNumber(ds[i].SequenceNumber)
		if n > low {
			fresh++
		}
		high = max(high, n)
	}
	if high-low > int64(fresh) && l.overtaken(ctx, p, low, high, ds) {
		now, yield := time.Now(), longYield
		if now.Sub(t.at) < incumbency {
			yield = shortYield
		}
		if t.since.IsZero() {
			t.since = now
		}
		if now.Sub(t.since) < longestYield {
			t.until = now.Add(yield/2 + rand.N(yield))
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
	there, err := l.p.set.b.store.Peek(call, p, low+1, int(min(high-low, lookBack)))
	if err != nil {
		return false
	}
	mine := make(map[int64]struct{}, len(ds))
	for i := range ds {
		mine[ds[i].SequenceNumber] = struct{}{}
	}
	for i := range there {
		_, n := core.SplitSequenceNumber(there[i].SequenceNumber)
		if _, ok := mine[there[i].SequenceNumber]; !ok && n < high && there[i].State == core.Active {
			return true
		}
	}
	return false
}
