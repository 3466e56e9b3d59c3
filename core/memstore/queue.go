package memstore

import "github.com/crosstown-mq/crosstown/core"

// messageState says what may happen to a stored message.
type messageState uint8

const (
	fresh          messageState = iota // available, never delivered
	again                              // available, delivered before
	locked                             // under lock
	deferred                           // aside, to be asked for by number
	lockedDeferred                     // asked for by number, and under lock
	scheduled                          // waiting for its time
	reserved                           // waiting for its transaction, which will have it scheduled
	messageStates
)

// isAvailable reports whether a message can be locked by the next receiver.
func (s messageState) isAvailable() bool { return s == fresh || s == again }

// isLocked reports whether a message is under lock.
func (s messageState) isLocked() bool { return s == locked || s == lockedDeferred }

// entry is a stored message and what the broker knows of it.
type entry struct {
	n          int64
	message    *core.Message // shared: replaced, never changed
	origin     int64         // EnqueuedSequenceNumber
	enqueued   int64
	expires    int64  // 0: never
	failures   uint32 // deliveries that ended and left it here, deferrals included
	state      messageState
	delayed    bool     // no receiver holds its lock: it waits after a failed delivery
	sessionful bool     // it belongs to the session of its SessionKey, where
	session    *session // it is from when it was due; else nil
	until      int64    // when the lock or the reservation ends, or the schedule is due
	nonce      uint64   // of the lock

	place        int // the entry's place in the heap of its state
	expiryPlace  int // its place in queue.expiries
	sessionPlace int // its place in session.locked or session.aside
}

// queue is one sub-queue.
type queue struct {
	home   *entityState
	ref    core.Ref
	last   int64 // the number given last
	cursor int64 // the highest number that was offered for first delivery
	log    log
	counts [messageStates]int64
	bytes  int64
	woken  bool // the call under way calls the doorbells for none

	again     timerHeap[*entry] // redeliverable entries without a session, by number
	locks     timerHeap[*entry] // entries under lock by the lock's end
	schedules timerHeap[*entry] // scheduled entries by due time, reserved ones by their end
	expiries  timerHeap[*entry] // available entries with a time to live, by expiry

	sessions map[core.SessionKey]*session // those that have messages or state, or are held
	waiting  timerHeap[*session]          // those with available messages that no receiver holds, by the first
	held     timerHeap[*session]          // by the end of their locks
}

// append gives e the next number and enters it in the heaps of its state.
func (q *queue) append(e *entry) {
	q.last++
	e.n = q.last
	q.log.append(e)
	q.grow(weightOf(e))
	q.join(e)
}

// remove forgets e.
func (q *queue) remove(e *entry) {
	q.quit(e)
	q.grow(-weightOf(e))
	q.log.remove(e.n)
}

// move changes e's state.
func (q *queue) move(e *entry, to messageState) {
	q.quit(e)
	e.state = to
	q.join(e)
}

// countDelivery counts a delivery of e that has ended and left e here. Those of
// dead letters do not count.
func (q *queue) countDelivery(e *entry) {
	if !q.ref.Sub.IsDeadLetter() {
		e.failures++
	}
}

// override merges properties into e's message.
func (q *queue) override(e *entry, over core.Properties) {
	if over.IsEmpty() {
		return
	}
	m := *e.message
	m.Properties = m.Properties.Merge(over)
	q.grow(sizeOf(&m) - sizeOf(e.message))
	e.message = &m
}

// grow counts bytes.
func (q *queue) grow(by int) {
	q.bytes += int64(by)
	q.home.partition.bytes += int64(by)
}

// join enters e in the heaps of its state.
func (q *queue) join(e *entry) {
	q.counts[e.state]++
	if e.sessionful && e.state != scheduled && e.state != reserved {
		q.enrol(e)
	}
	switch e.state {
	case fresh:
		// The log keeps these in order.
	case again:
		if !e.sessionful {
			q.again.add(e, e.n, e.n, &e.place)
		}
	case locked, lockedDeferred:
		q.locks.add(e, e.until, e.n, &e.place)
	case scheduled, reserved:
		q.schedules.add(e, e.until, e.n, &e.place)
	}
	if q.mayExpire(e) {
		q.expiries.add(e, e.expires, e.n, &e.expiryPlace)
	}
}

// quit is the reverse of join.
func (q *queue) quit(e *entry) {
	q.counts[e.state]--
	if e.session != nil {
		q.strike(e)
	}
	switch e.state {
	case again:
		if !e.sessionful {
			q.again.remove(e.place)
		}
	case locked, lockedDeferred:
		q.locks.remove(e.place)
	case scheduled, reserved:
		q.schedules.remove(e.place)
	}
	if q.mayExpire(e) {
		q.expiries.remove(e.expiryPlace)
	}
}

// expires reports whether messages expire in here: only in the main queue.
func (q *queue) expires() bool { return q.ref.Sub == core.Main }

// mayExpire reports whether time alone can expire e.
func (q *queue) mayExpire(e *entry) bool {
	return q.expires() && e.expires != 0 && e.state.isAvailable()
}

// hasExpired reports whether e's time to live is over, whatever its state.
func (q *queue) hasExpired(e *entry, now int64) bool {
	return q.expires() && e.expires != 0 && e.expires <= now
}

// next returns when something is due next, 0 if nothing is.
func (q *queue) next() int64 {
	var next int64
	for _, a := range [...]*timerHeap[*entry]{&q.locks, &q.schedules, &q.expiries} {
		if at, ok := a.first(); ok && (next == 0 || at < next) {
			next = at
		}
	}
	if at, ok := q.held.first(); ok && (next == 0 || at < next) {
		next = at
	}
	return next
}
