package entity

import (
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/core"
)

// Counters are the counters that Traffic reports. A call adds to each counter at most once.
type Counters struct {
	Accepted, Absorbed, Cancelled atomic.Int64
	Queues                        [core.SubQueues]QueueCounters
}

type QueueCounters struct {
	Delivered, Lost, Moved atomic.Int64
	Settled                [core.Release + 1]atomic.Int64
}

func (t *Counters) Accept(answers []core.Appended) {
	stored, others := 0, 0
	for i := range answers {
		s := countStored(answers[i].Numbers)
		stored += s
		others += len(answers[i].Numbers) - s
	}
	t.add(stored, others)
}

func (t *Counters) add(accepted, absorbed int) {
	if accepted > 0 {
		t.Accepted.Add(int64(accepted))
	}
	if absorbed > 0 {
		t.Absorbed.Add(int64(absorbed))
	}
}

// Sum grows whenever a counter grows.
func (t *Counters) Sum() int64 {
	n := t.Accepted.Load() + t.Absorbed.Load() + t.Cancelled.Load()
	for sub := range t.Queues {
		o := &t.Queues[sub]
		n += o.Delivered.Load() + o.Lost.Load() + o.Moved.Load()
		for i := range o.Settled {
			n += o.Settled[i].Load()
		}
	}
	return n
}

// countStored counts stored messages. The numbers of dropped ones are 0.
func countStored(numbers []int64) (n int) {
	for _, number := range numbers {
		if number != 0 {
			n++
		}
	}
	return n
}

func (t *Counters) Commit(sub core.SubQueue, w *core.Work, numbers []int64) {
	stored := countStored(numbers)
	t.add(stored+len(w.Scheduled), len(numbers)-stored)
	if n := len(w.Cancels); n > 0 {
		t.Cancelled.Add(int64(n))
	}
	t.Queues[sub].Settle(w.Settlements, make([]error, len(w.Settlements)))
}

func (o *QueueCounters) Settle(settlements []core.Settlement, errs []error) {
	var ended [core.Release + 1]int64
	for i, err := range errs {
		switch outcome, code := settlements[i].Outcome, core.CodeOf(err); {
		case code == "" && outcome <= core.Release:
			ended[outcome]++
		case code == core.LockLost || code == core.SessionLockLost:
			o.Lost.Add(1)
		}
	}
	for outcome, n := range ended {
		if n > 0 {
			o.Settled[outcome].Add(n)
		}
	}
}

// Traffic counts this gateway's operations on an entity's messages since the gateway first used the
// entity, and the entity's current clients. The store counts expired messages, and copies that a
// subscription gets from its topic: see Holding.
type Traffic struct {
	Entity string
	Kind   core.Kind

	Accepted int64 // messages from clients, transactions and forwarders, including scheduled ones
	// Absorbed messages were accepted but not stored: duplicates, and messages that the pipeline
	// dropped or routed away.
	Absorbed  int64
	Cancelled int64
	Senders   int
	Sessions  int
	Waiting   int
	Breaker   string
	Opened    int64
	PerSecond float64 // the rate limit; 0: none
	Queues    [core.SubQueues]QueueTraffic
}

type QueueTraffic struct {
	Delivered int64                   // a message counts at each delivery
	Settled   [core.Release + 1]int64 // by outcome; receive-and-delete counts as Complete
	LocksLost int64
	Moved     int64
	Receivers int
	Credit    int
}

func ScheduledBy(w *core.Work) (ms []*core.Message, numbers []int64) {
	for _, x := range w.Scheduled {
		ms, numbers = append(ms, x.Message), append(numbers, x.Number)
	}
	return ms, numbers
}

func IsEmptyWork(w *core.Work) bool {
	return len(w.Settlements)+len(w.Cancels)+len(w.States)+len(w.Scheduled)+len(w.Messages)+len(w.Transfers) == 0
}
