package storetest

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

type subject struct {
	core.Partition // the main queue
	entity         core.Entity
	notes          [core.SubQueues]notes
	locks          []pair[core.SessionLock] // all that were given out
	reserved       []core.Reserved          // all that were given out
}

type notes struct {
	tokens    []pair[core.LockToken] // all that were given out
	top       int64                  // highest number seen
	deferred  []int64                // sequence numbers that were ever deferred
	scheduled []int64                // sequence numbers that were ever scheduled
}

func (pl *subject) at(q core.SubQueue) core.Partition {
	if q == core.Main {
		return pl.Partition
	}
	return sub(pl.Partition, q)
}

func (p *player) newSubject(r core.Ref) *subject {
	pl := &subject{Partition: core.Partition{
		Ref: r,
		Policy: core.Policy{
			Partitioned:       p.pick(2) == 1,
			LockDuration:      oneOf(p, time.Second, 2*time.Second, 5*time.Second),
			MaxDeliveryCount:  1 + p.pick(3),
			DeadLetterExpired: p.pick(2) == 1,
			Sessions:          p.pick(2) == 1,
			History:           p.history,
		},
	}}
	p.subjects = append(p.subjects, pl)
	return pl
}

func (p *player) of(r core.Ref) *notes { return &p.subjectOf(r).notes[r.Sub] }

func (p *player) subjectOf(r core.Ref) *subject {
	for _, pl := range p.subjects {
		if pl.Entity == r.Entity && pl.Subscription == r.Subscription && pl.Index == r.Index {
			return pl
		}
	}
	return &subject{} // the subscription has no subject any more
}

func (p *player) somewhere(pl *subject) core.Partition {
	return pl.at(oneOf(p,
		core.Main, core.Main, core.Main, core.Main, core.Main, core.Main, core.Main, core.Main, core.Main, core.Main, core.Main,
		core.DeadLetter, core.DeadLetter, core.DeadLetter, core.Transfer, core.TransferDeadLetter))
}
