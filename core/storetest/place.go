package storetest

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// place is a queue, topic or subscription that a player plays at, and what the
// player remembers of it.
type place struct {
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

// at is a sub-queue of the place.
func (pl *place) at(q core.SubQueue) core.Partition {
	if q == core.Main {
		return pl.Partition
	}
	return sub(pl.Partition, q)
}

// newPlace makes a place with a policy of its own.
func (p *player) newPlace(r core.Ref) *place {
	pl := &place{Partition: core.Partition{
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
	p.places = append(p.places, pl)
	return pl
}

// of returns the notes on a sub-queue.
func (p *player) of(r core.Ref) *notes { return &p.placeOf(r).notes[r.Sub] }

// placeOf returns the place that a sub-queue is of.
func (p *player) placeOf(r core.Ref) *place {
	for _, pl := range p.places {
		if pl.Entity == r.Entity && pl.Subscription == r.Subscription && pl.Index == r.Index {
			return pl
		}
	}
	return &place{} // of a subscription that has been replaced
}

// somewhere picks a sub-queue of a place: most often the main queue.
func (p *player) somewhere(pl *place) core.Partition {
	return pl.at(oneOf(p,
		core.Main, core.Main, core.Main, core.Main, core.Main, core.Main, core.Main, core.Main, core.Main, core.Main, core.Main,
		core.DeadLetter, core.DeadLetter, core.DeadLetter, core.Transfer, core.TransferDeadLetter))
}
