package broker

import (
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/core"
)

// Traffic counts what this gateway has done with an entity's messages since it first used the
// entity, and its current clients. Each gateway counts its own. Copies that a subscription gets
// from its topic, and expired messages, are not counted here but in the store (see Holding).
type Traffic struct {
	Entity string
	Kind   core.Kind

	Accepted  int64 // messages from senders, transactions and forwarders, including scheduled ones
	Absorbed  int64 // accepted messages that were not stored: duplicates, and those that the pipeline dropped or routed away
	Cancelled int64 // scheduled messages
	Senders   int   // open senders
	Sessions  int   // open sessions
	Waiting   int   // calls that wait for a free session
	Queues    [core.SubQueues]QueueTraffic
}

// QueueTraffic is the traffic out of a queue or sub-queue.
type QueueTraffic struct {
	Delivered int64                   // messages delivered, counted at each delivery
	Settled   [core.Release + 1]int64 // locks ended, by outcome; receive-and-delete counts as Complete
	LocksLost int64                   // settlements that came too late
	Moved     int64                   // messages that forwarders moved away
	Receivers int                     // open receivers, without sessions
	Credit    int                     // their unspent credit
}

// traffic is what Traffic reports, while it grows. A call adds to each counter once.
type traffic struct {
	accepted, absorbed, cancelled atomic.Int64
	queues                        [core.SubQueues]queueCounts
}

type queueCounts struct {
	delivered, lost, moved atomic.Int64
	settled                [core.Release + 1]atomic.Int64
}

// accept counts the results of appending groups.
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

// commit counts committed work in a sub-queue, with the numbers of its messages.
func (t *traffic) commit(sub core.SubQueue, w *core.Work, numbers []int64) {
	stored := countStored(numbers)
	t.add(stored+len(w.Scheduled), len(numbers)-stored)
	if n := len(w.Cancels); n > 0 {
		t.cancelled.Add(int64(n))
	}
	t.queues[sub].settle(w.Settlements, make([]error, len(w.Settlements)))
}

// settle counts ended locks.
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

// Traffic returns the traffic of the entities that this gateway has used, in no order.
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

// openReceivers returns the number of receivers, and their credit.
func (d *dispatcher) openReceivers() (receivers, credit int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.receivers), d.credit
}

// counts returns the number of open sessions, and of calls that wait for one.
func (h *sessionHub) counts() (held, waiting int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all), len(h.waiters)
}
