package state

import (
	"math"
	"time"

	"github.com/tidwall/btree"

	"github.com/crosstown-mq/crosstown/core"
)

// MessageState is the state of a stored message.
type MessageState uint8

const (
	fresh          MessageState = iota // available, never delivered
	again                              // available, delivered before
	locked                             // under lock
	deferred                           // not delivered, but locked by number on request
	lockedDeferred                     // a deferred message under a lock
	scheduled                          // waiting for its due time
	reserved                           // waiting for its transaction, which will schedule it
	broken                             // put aside: its record is damaged
	MessageStates
)

// isAvailable reports whether a message can be locked by the next receiver.
func (s MessageState) isAvailable() bool { return s == fresh || s == again }

// IsTimed reports whether entry.until has a meaning in this state.
func (s MessageState) IsTimed() bool { return s.IsLocked() || s == scheduled || s == reserved }

// IsLocked reports whether a message is under lock.
func (s MessageState) IsLocked() bool { return s == locked || s == lockedDeferred }

// entry is a stored message with its broker properties.
type entry struct {
	n          int64
	message    *core.Message // shared: replaced, never changed; nil if only the journal has it
	ref        Ref           // its record in the journal
	more       *extra        // mostly nil
	origin     int64         // EnqueuedSequenceNumber
	life       time.Duration // its time to live, which begins when it becomes available; 0: it does not expire
	enqueued   int64
	expires    int64  // 0: never
	size       int    // sizeOf its message
	record     int32  // the place of its record in the frame being built, plus 1
	failures   uint32 // failed deliveries and deferrals
	state      MessageState
	delayed    bool     // the message waits after a delivery: no receiver holds its lock
	byBroker   bool     // its lock, if there is one, is the broker's own: see core.Policy.BrokerLocks
	sessionful bool     // it belongs to the session of its SessionKey in queues with sessions
	noted      bool     // there was a history when it was stored
	moved      bool     // it came from another entity, where it has its origin
	isRow      bool     // it was made from a row, which is in the log in its place
	resident   bool     // the journal counts its message as one that stays in memory
	session    *session // its session, from when it is due; otherwise nil
	until      int64    // when the lock or the reservation ends, or the schedule is due
	nonce      uint64   // of the lock

	place        int // the entry's place in the heap of its state
	expiryPlace  int // its place in queue.expiries
	sessionPlace int // its place in session.locked or session.aside
}

// queue is one sub-queue.
type queue struct {
	home     *entityState
	ref      core.Ref
	last     int64 // the last number given
	cursor   int64 // no message up to this number waits for its first delivery
	log      log
	counts   [MessageStates]int64
	bytes    int64
	resident int  // bytes of messages that stay in memory beside their records
	woken    bool // the call in flight already rings the doorbells for any receiver

	again     timerHeap[*entry] // redeliverable entries without a session, by number
	locks     timerHeap[*entry] // entries under lock by the lock's end
	schedules timerHeap[*entry] // scheduled entries by due time, reserved ones by their end
	expiries  timerHeap[*entry] // available entries with a time to live, by expiry

	rowExpiries timerHeap[*chunk] // chunks with rows that have a time to live, by chunk.earliest

	sessions map[core.SessionKey]*session // those that have messages or state, or are held
	keys     btree.Set[core.SessionKey]   // of sessions, in their order
	waiting  timerHeap[*session]          // unlocked sessions with available messages, by turn
	turns    int64                        // the last turn given
	held     timerHeap[*session]          // locked sessions, by the end of their locks
}

// effects returns the effects of the call in flight, or nil without a journal.
func (q *queue) effects() *effects { return q.home.partition.effects }

// append gives e the next number, and enters it in the heaps of its state.
func (q *queue) append(e *entry) {
	e.n = q.last + 1
	q.insert(e)
	if x := q.effects(); x != nil {
		x.put(q, e)
	}
}

// insert enters e, whose number is higher than all others.
func (q *queue) insert(e *entry) {
	q.last = e.n
	q.log.append(e)
	q.grow(weightOf(e))
	q.join(e)
}

// remove forgets e.
func (q *queue) remove(e *entry) {
	if x := q.effects(); x != nil {
		x.do(Effect{Kind: EffectRemove, Of: q.ref, Number: e.n})
	}
	q.quit(e)
	q.grow(-weightOf(e))
	q.log.remove(e.n)
	q.release(e)
}

// evict tells the journal that the messages of a dropped queue leave the memory.
func (q *queue) evict() {
	q.home.partition.remembered.damaged.Add(-q.counts[broken])
	if j := q.home.partition.journal; j != nil {
		j.Evicted(q.resident)
	}
}

// keepInMemory keeps e's message in memory beside its record, if the journal allows it. Otherwise a
// row replaces e if it can represent e. The messages of reserved entries are kept in any case,
// because their transactions need them.
func (q *queue) keepInMemory(e *entry) {
	switch {
	case e.resident:
	case e.message == nil:
		q.demote(e)
	case e.state == reserved:
	case q.home.partition.journal.Resident(weightOf(e)):
		e.resident = true
		q.resident += weightOf(e)
	default:
		m := e.message
		if e.sessionful || e.noted && !m.MessageID.IsZero() {
			e.change(func(more *extra) { more.session, more.id = m.SessionID, m.MessageID })
		}
		e.message = nil
		q.demote(e)
	}
}

// release is the reverse of keepInMemory.
func (q *queue) release(e *entry) {
	if e.resident {
		q.home.partition.journal.Evicted(weightOf(e))
		q.resident -= weightOf(e)
		e.resident = false
	}
}

// skip uses up the next number for a message that is not kept here.
func (q *queue) skip() int64 {
	q.last++
	if x := q.effects(); x != nil {
		x.do(Effect{Kind: EffectLast, Of: q.ref, Number: q.last})
	}
	return q.last
}

// move changes e's state, and ends its delay. Other changes of e must have been made before.
func (q *queue) move(e *entry, to MessageState) {
	q.quit(e)
	e.state, e.delayed = to, false
	q.rejoin(e)
}

// delay gives e a lock that no receiver holds.
func (q *queue) delay(e *entry, nonce uint64, until int64) {
	q.quit(e)
	e.nonce, e.until, e.delayed = nonce, until, true
	q.rejoin(e)
}

// rejoin does the same as join, and records the change of e.
func (q *queue) rejoin(e *entry) {
	q.join(e)
	if x := q.effects(); x != nil {
		x.state(q, e)
	}
}

// countDelivery counts the ended delivery of an entry that stays in its queue. Deliveries of dead
// letters are not counted.
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
	size := e.size + len(over.Encoded()) // an estimate if only the journal has the message
	if e.message != nil {
		m := *e.message
		m.Properties = m.Properties.Merge(over)
		size = sizeOf(&m)
		e.message = &m
	}
	if q.effects() != nil {
		e.change(func(more *extra) { more.overlay = more.overlay.Merge(over) })
	}
	q.resize(e, size)
}

// resize sets the size of e's message.
func (q *queue) resize(e *entry, size int) {
	q.release(e)
	q.grow(size - e.size)
	e.size = size
}

// grow adds bytes to the sizes of the queue and its partition.
func (q *queue) grow(by int) {
	q.bytes += int64(by)
	q.home.partition.bytes += int64(by)
}

// join enters e in the heaps of its state.
func (q *queue) join(e *entry) {
	q.counts[e.state]++
	if e.state == broken {
		q.home.partition.remembered.damaged.Add(1)
	}
	if e.sessionful && e.state < scheduled {
		q.enrol(e)
	}
	switch e.state {
	case fresh:
		// Fresh messages need no heap, because the log keeps them in order.
	case again:
		if !e.sessionful {
			q.again.add(e, e.n, e.n, &e.place)
		}
	case locked, lockedDeferred:
		q.locks.add(e, e.ends(), e.n, &e.place)
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
	if e.state == broken {
		q.home.partition.remembered.damaged.Add(-1)
	}
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

// expires reports whether messages expire in the queue: only in a main queue.
func (q *queue) expires() bool { return q.ref.Sub == core.Main }

// mayExpire reports whether e can expire by the passing of time alone.
func (q *queue) mayExpire(e *entry) bool {
	return q.expires() && e.expires != 0 && e.state.isAvailable()
}

// hasExpired reports whether e's time to live has ended, in any state.
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
	if c := q.firstRow(math.MaxInt64); c != nil && (next == 0 || c.earliest < next) {
		next = c.earliest
	}
	return next
}

// What the engine keeps beside the bytes that a message's Size counts, rounded as the runtime
// allocates it. TestSizesMatchTheKeptMemory compares the sums with the heap.
const (
	// entryWeight is the weight of an entry and its message, except for what Size counts, with
	// their places in the log and in one heap.
	entryWeight = 570
	// expiryWeight is the weight of a place in the heap of expiries.
	expiryWeight = 40
	// memberWeight is the weight of a place in a session's heap.
	memberWeight = 40
	// sessionWeight is the weight of a session with its places in the queue.
	sessionWeight = 320
	// transitWeight is the weight of what a message carries from another entity.
	transitWeight = 64
	// seenIDWeight is the weight of a message id that duplicate detection remembers.
	seenIDWeight = 90
)

// weightOf returns the weight of an entry, which does not depend on its state.
func weightOf(e *entry) int {
	weight := entryWeight + e.size
	if e.expires != 0 {
		weight += expiryWeight
	}
	if e.sessionful {
		weight += memberWeight
	}
	return weight
}

// sizeOf returns the part of weightOf that changes with the message.
func sizeOf(m *core.Message) int {
	size := m.Size()
	if m.Transit != nil {
		size += transitWeight + len(m.Transit.DeadLetterSource) + len(m.Transit.Destination)
	}
	return size
}

// weight returns the weight of a session without its messages.
func (s *session) weight() int { return sessionWeight + len(s.Key) + len(s.State) }
