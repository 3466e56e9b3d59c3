package forward

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// shortYield and LongYield are how long a partition forwarder waits at first when another
	// gateway has locked older messages of the partition. A forwarder that has moved messages
	// within the last leaseDuration waits for shortYield, all others for LongYield. Therefore one
	// gateway continues, and the others do not interfere.
	shortYield    = 2 * time.Millisecond
	LongYield     = 300 * time.Millisecond
	leaseDuration = time.Second
	// LongestYield limits how long a forwarder yields to the same older message. All locks of
	// forwarders are shorter. If a gateway dies, a store on Redis ends the gateway's locks after ten
	// seconds, not counting time in which Redis did not answer.
	LongestYield = forwardLock + 2*time.Second
	// To find out whether another gateway has locked an older message, a partition forwarder peeks
	// at lookBack messages in each of up to maxGaps gaps between the numbers of its messages.
	lookBack = 8
	maxGaps  = 4
)

// orderLease keeps the order of a partition's messages while several gateways move them. A
// partition forwarder yields to another gateway that has locked older messages. It need not look
// for such messages if its batch directly follows its last batch.
type orderLease struct {
	highest       int64 // the highest number that mayMove has allowed; lowered when messages are released
	movedAt       time.Time
	behind        int64     // the oldest message to which the forwarder yields
	yieldingSince time.Time // when it began to yield to that message; zero: it does not yield
	yieldUntil    time.Time // when the forwarder tries again with one message
	pause         time.Duration
}

// mayMove reports whether the partition forwarder may move ds, which it has locked. If not, mayMove
// sets yieldUntil, and the caller must unlock ds.
func (pf *partitionForwarder) mayMove(ctx context.Context, p core.Partition, ds []core.Delivery) bool {
	lease := &pf.lease
	low := lease.highest
	if pf.parent.remote != "" {
		low = 0 // another gateway may have released earlier messages
	}
	high, fresh := low, 0 // fresh: how many numbers are above low
	for i := range ds {
		_, n := core.SplitSequenceNumber(ds[i].SequenceNumber)
		if n > low {
			fresh++
		}
		high = max(high, n)
	}
	older := int64(0)
	if high-low > int64(fresh) {
		older = pf.heldByOthers(ctx, p, low, high, ds)
	}
	if older != 0 {
		now := time.Now()
		if lease.yieldingSince.IsZero() {
			lease.pause = LongYield
			if now.Sub(lease.movedAt) < leaseDuration {
				lease.pause = shortYield
			}
		}
		if older != lease.behind { // others make progress
			lease.behind, lease.yieldingSince = older, now
		}
		longest := LongestYield
		if pf.parent.remote != "" {
			longest = remoteTimeout + forwardLock // longer than another gateway waits for the remote
		}
		if now.Sub(lease.yieldingSince) < longest {
			lease.yieldUntil = now.Add(lease.pause/2 + rand.N(lease.pause))
			lease.pause = min(2*lease.pause, LongYield)
			return false
		}
	}
	*lease = orderLease{highest: high, movedAt: time.Now()}
	return true
}

// heldByOthers returns the number of the oldest message between low and high that is active but not
// in ds, because another gateway has locked it, or 0 if there is none. After an error, it assumes
// that there is one.
func (pf *partitionForwarder) heldByOthers(ctx context.Context, p core.Partition, low, high int64, ds []core.Delivery) int64 {
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	mine := make(map[int64]bool, len(ds))
	for i := range ds {
		_, n := core.SplitSequenceNumber(ds[i].SequenceNumber)
		mine[n] = true
	}
	next, gaps := low+1, maxGaps
	if pf.parent.remote != "" {
		gaps += len(ds) // one gap before each message
	}
	for range gaps {
		for mine[next] {
			next++
		}
		if next >= high {
			return 0
		}
		there, err := p.Peek(call, core.PeekRequest{From: next, Max: lookBack})
		if err != nil {
			return low + 1
		}
		if len(there) == 0 {
			return 0
		}
		for i := range there {
			_, next = core.SplitSequenceNumber(there[i].SequenceNumber)
			if next >= high {
				return 0
			}
			if mine[next] {
				break
			}
			if there[i].State == core.Active {
				return next
			}
			next++
		}
	}
	return 0
}
