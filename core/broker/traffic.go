package broker

import (
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/core"
)

// Traffic is what this gateway has done with an entity's messages since it first
// used the entity, and who uses it here now. Other gateways count for themselves.
// What a subscription gets from its topic, and what expires, nobody counts here:
// the store does that (see Holding).
type Traffic struct {
	Entity string
	Kind   core.Kind

	Accepted  int64 // messages that it took from senders, transactions and forwarders, scheduled ones included
	Absorbed  int64 // messages that were accepted and not stored in it: duplicates, and what its stages dropped or sent elsewhere
	Cancelled int64 // scheduled messages
	Senders   int   // open now
	Sessions  int   // held now
	Waiting   int   // for a next session, now
	Queues    [core.SubQueues]QueueTraffic
}

// QueueTraffic is the traffic out of an entity's queue, or one of its sub-queues.
type QueueTraffic struct {
	Delivered int64                   // messages handed to receivers, each time anew
	Settled   [core.Release + 1]int64 // locks ended, by outcome; receiving and deleting completes
	LocksLost int64                   // settlements that came too late
	Moved     int64                   // messages that forwarders took away
	Receivers int                     // open now, without those of sessions
	Credit    int                     // of all of these, not spent
}

// traffic is Traffic as it grows. Calls add to it once, however many messages
// they have.
type traffic struct {
	accepted, absorbed, cancelled atomic.Int64
	queues                        [core.SubQueues]queueCounts
}

type queueCounts struct {
	delivered, lost, moved atomic.Int64
	settled                [core.Release + 1]atomic.Int64
}

// accept counts what became of groups of messages.
func (t *traffic) accept(answers []core.Appended) {
	stored, others := 0, 0
	for i := range answers {
		s := countStored(answers[i].Numbers)
		stored += s
		others += len(answers[i].Numbers) - s
	}
	t.add(stored, others)
}

func (t *traffic) add(accepted, absorbed int) {
	if accepted > 0 {
		t.accepted.Add(int64(accepted))
	}
	if absorbed > 0 {
		t.absorbed.Add(int64(absorbed))
	}
}

// countStored counts the messages that got a number.
func countStored(numbers []int64) (n int) {
	for _, number := range numbers {
		if number != 0 {
			n++
		}
	}
	return n
}

// commit counts work in a sub-queue that was done, with the numbers of its messages.
func (t *traffic) commit(sub core.SubQueue, w *core.Work, numbers []int64) {
	stored := countStored(numbers)
	t.add(stored+len(w.Scheduled), len(numbers)-stored)
	if n := len(w.Cancels); n > 0 {
		t.cancelled.Add(int64(n))
	}
	t.queues[sub].settle(w.Settlements, make([]error, len(w.Settlements)))
}

// settle counts how locks have ended.
func (o *queueCounts) settle(settlements []core.Settlement, errs []error) {
	var ended [core.Release + 1]int64
	for i, err := range errs {
		switch outcome, code := settlements[i].Outcome, core.CodeOf(err); {
		case code == "" && outcome <= core.Release:
			ended[outcome]++
		case code == core.LockLost || code == core.SessionLockLost:
			o.lost.Add(1)
		}
	}
	for outcome, n := range ended {
		if n > 0 {
			o.settled[outcome].Add(n)
		}
	}
}

// Traffic tells of the entities that were used here, in no order.
func (b *Broker) Traffic() []Traffic {
	b.mu.RLock()
	entries := make([]*entry, 0, len(b.entries))
	for _, e := range b.entries {
		entries = append(entries, e)
	}
	b.mu.RUnlock()
	all := make([]Traffic, len(entries))
	for i, e := range entries {
		all[i] = e.trafficNow()
	}
	return all
}

func (e *entry) trafficNow() Traffic {
	v := e.current.Load()
	t := Traffic{
		Entity: v.Name, Kind: v.Kind,
		Accepted: e.traffic.accepted.Load(), Absorbed: e.traffic.absorbed.Load(), Cancelled: e.traffic.cancelled.Load(),
	}
	for sub := range t.Queues {
		from, to := &e.traffic.queues[sub], &t.Queues[sub]
		to.Delivered, to.LocksLost, to.Moved = from.delivered.Load(), from.lost.Load(), from.moved.Load()
		for outcome := range to.Settled {
			to.Settled[outcome] = from.settled[outcome].Load()
		}
	}
	e.mu.Lock()
	dispatchers, hub := e.dispatchers, e.hub
	t.Senders = len(e.senders)
	e.mu.Unlock()
	for sub, d := range dispatchers {
		if d != nil {
			t.Queues[sub].Receivers, t.Queues[sub].Credit = d.openReceivers()
		}
	}
	if hub != nil {
		t.Sessions, t.Waiting = hub.counts()
	}
	return t
}

// openReceivers counts the receivers and their credit.
func (d *dispatcher) openReceivers() (receivers, credit int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.receivers), d.credit
}

// counts counts the sessions that are held, and those who wait for a next one.
func (h *sessionHub) counts() (held, waiting int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all), len(h.waiters)
}
