package memstore

import "github.com/crosstown-mq/crosstown/core"

// standing says what may happen to a stored message.
type standing uint8

const (
	fresh          standing = iota // available, never delivered
	again                          // available, delivered before
	locked                         // under lock
	deferred                       // aside, to be asked for by number
	lockedDeferred                 // asked for by number, and under lock
	scheduled                      // waiting for its time
	standings
)

// entry is a stored message and what the broker knows of it.
type entry struct {
	n        int64
	message  *core.Message // shared: replaced, never changed
	origin   int64         // EnqueuedSequenceNumber
	enqueued int64
	expires  int64 // 0: never
	failures uint32
	standing standing
	until    int64  // when the lock ends, or the schedule is due
	nonce    uint64 // of the lock
	slots    [2]int // the entry's places in its agendas, by agenda.slot
}

// queue is one sub-queue of a partition.
type queue struct {
	sub    core.SubQueue
	last   int64 // the number given last
	cursor int64 // the highest number that was offered for first delivery
	log    log
	counts [standings]int64
	bytes  int64

	again     agenda // redeliverable entries by number
	locks     agenda // entries under lock by the lock's end
	schedules agenda // scheduled entries by due time
	expiries  agenda // available entries with a time to live, by expiry
}

func newQueue(sub core.SubQueue) *queue {
	return &queue{sub: sub, expiries: agenda{slot: 1}}
}

// append gives e the next number and lets it stand as it says.
func (q *queue) append(e *entry) {
	q.last++
	e.n = q.last
	q.log.append(e)
	q.bytes += int64(e.message.Size())
	q.join(e)
}

// remove forgets e.
func (q *queue) remove(e *entry) {
	q.quit(e)
	q.bytes -= int64(e.message.Size())
	q.log.remove(e.n)
}

// move changes e's standing.
func (q *queue) move(e *entry, to standing) {
	q.quit(e)
	e.standing = to
	q.join(e)
}

// override merges properties into e's message.
func (q *queue) override(e *entry, over core.Properties) {
	if over.IsEmpty() {
		return
	}
	q.bytes -= int64(e.message.Size())
	m := *e.message
	m.Properties = m.Properties.Merge(over)
	e.message = &m
	q.bytes += int64(m.Size())
}

// join enters e in the agendas of its standing.
func (q *queue) join(e *entry) {
	q.counts[e.standing]++
	switch e.standing {
	case again:
		q.again.add(e, e.n)
	case locked, lockedDeferred:
		q.locks.add(e, e.until)
	case scheduled:
		q.schedules.add(e, e.until)
	}
	if q.mayExpire(e) {
		q.expiries.add(e, e.expires)
	}
}

// quit is the reverse of join.
func (q *queue) quit(e *entry) {
	q.counts[e.standing]--
	switch e.standing {
	case again:
		q.again.remove(e)
	case locked, lockedDeferred:
		q.locks.remove(e)
	case scheduled:
		q.schedules.remove(e)
	}
	if q.mayExpire(e) {
		q.expiries.remove(e)
	}
}

// mayExpire reports whether time alone can expire e: it is available, and in
// the main queue.
func (q *queue) mayExpire(e *entry) bool {
	return q.sub == core.Main && e.expires != 0 && (e.standing == fresh || e.standing == again)
}

// hasExpired reports whether e's time to live is over, whatever its standing.
func (q *queue) hasExpired(e *entry, now int64) bool {
	return q.sub == core.Main && e.expires != 0 && e.expires <= now
}

// next returns when something is due next, 0 if nothing is.
func (q *queue) next() int64 {
	var next int64
	for _, a := range [...]*agenda{&q.locks, &q.schedules, &q.expiries} {
		if at, ok := a.first(); ok && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}
