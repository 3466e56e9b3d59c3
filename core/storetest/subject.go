package storetest

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// subject is a queue, topic or subscription on which a player runs operations, and what the player
// remembers of it.
type subject struct {
	core.Partition // its main queue
	entity         core.Entity
	notes          [core.SubQueues]notes
	locks          []pair[core.SessionLock] // ever given
	reserved       []core.Reserved          // ever given
}

// notes are what the player remembers of a sub-queue.
type notes struct {
	tokens    []pair[core.LockToken] // ever given
	top       int64                  // the highest position seen
	deferred  []int64                // sequence numbers that were deferred once
	scheduled []int64                // sequence numbers that were scheduled once
}

// at returns a sub-queue of the subject.
func (pl *subject) at(q core.SubQueue) core.Partition {
	if q == core.Main {
		return pl.Partition
	}
	return sub(pl.Partition, q)
}

// newSubject makes a subject with a policy of its own.
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

// of returns the notes on a sub-queue.
func (p *player) of(r core.Ref) *notes { return &p.subjectOf(r).notes[r.Sub] }

// subjectOf returns the subject to which a sub-queue belongs.
func (p *player) subjectOf(r core.Ref) *subject {
	for _, pl := range p.subjects {
		if pl.Entity == r.Entity && pl.Subscription == r.Subscription && pl.Index == r.Index {
			return pl
		}
	}
	return &subject{} // of a subscription that has been replaced
}

// somewhere picks a sub-queue of a subject: most often the main queue.
func (p *player) somewhere(pl *subject) core.Partition {
	return pl.at(oneOf(p,
		core.Main, core.Main, core.Main, core.Main, core.Main, core.Main, core.Main, core.Main, core.Main, core.Main, core.Main,
		core.DeadLetter, core.DeadLetter, core.DeadLetter, core.Transfer, core.TransferDeadLetter))
}
