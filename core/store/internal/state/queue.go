package state

import (
	"cmp"
	"math"
	"time"

	"github.com/tidwall/btree"

	"github.com/crosstown-mq/crosstown/core"
)

type MessageState uint8

const (
	fresh MessageState = iota
	again
	locked
	deferred // receivers must request it by number
	lockedDeferred
	scheduled
	reserved // invisible until its transaction commits
	broken   // not delivered, because its record is damaged
	MessageStates
)

func (s MessageState) isAvailable() bool { return s == fresh || s == again }

func (s MessageState) IsTimed() bool { return s.IsLocked() || s == scheduled || s == reserved }

func (s MessageState) IsLocked() bool { return s == locked || s == lockedDeferred }

type entry struct {
	n          int64
	message    *core.Message // nil if it is only in the journal; replaced, never changed
	ref        Ref
	more       *extra
	origin     int64
	life       time.Duration // the time to live of a message that is not yet available; 0: never expires
	enqueued   int64
	expires    int64 // 0: never
	size       int
	record     int32 // index of the record in the frame being built, plus 1; 0: none
	failures   uint32
	state      MessageState
	delayed    bool     // the lock only delays the message: no receiver holds it
	byBroker   bool     // the broker holds the lock: see core.Policy.BrokerLocks
	sessionful bool     // the message belongs to the session of its SessionKey
	noted      bool     // a history was kept when the message was stored
	moved      bool     // another entity received the message first, with the number origin
	isRow      bool     // temporary: the log has a row, not this entry
	resident   bool     // counted by Journal.Resident
	session    *session // nil before a scheduled message becomes due
	until      int64
	nonce      uint64

	place        int
	expiryPlace  int
	sessionPlace int
}

type queue struct {
	home     *entityState
	ref      core.Ref
	last     int64
	cursor   int64 // all messages up to this number have been delivered
	log      log
	counts   [MessageStates]int64
	bytes    int64
	resident int  // bytes of messages in memory that the journal also has
	woken    bool // the current call already notifies watchers for any receiver

	again     timerHeap[*entry] // messages of no session that were delivered before, by number
	locks     timerHeap[*entry] // by the end of the lock
	schedules timerHeap[*entry] // scheduled entries by due time, reserved entries by the end of the reservation
	expiries  timerHeap[*entry] // available entries with a time to live, by its end

	rowExpiries timerHeap[*chunk] // chunks with rows that expire, by chunk.earliest

	sessions map[core.SessionKey]*session // sessions that have messages or state, or are locked
	keys     btree.Set[core.SessionKey]
	waiting  timerHeap[*session] // free sessions with available messages, in the order in which they began to wait
	turns    int64
	held     timerHeap[*session] // locked sessions, by the end of the lock
}

func byNumber(a, b *entry) int { return cmp.Compare(a.n, b.n) }

func (q *queue) effects() *effects { return q.home.partition.effects }

func (q *queue) append(e *entry) {
	e.n = q.last + 1
	q.insert(e)
	q.effects().put(q, e)
}

func (q *queue) insert(e *entry) {
	q.last = e.n
	q.log.append(e)
	q.grow(weightOf(e))
	q.join(e)
}

func (q *queue) remove(e *entry) {
	q.effects().do(Effect{Kind: EffectRemove, Of: q.ref, Number: e.n})
	q.quit(e)
	q.grow(-weightOf(e))
	q.log.remove(e.n)
	q.release(e)
}

func (q *queue) evict() {
	q.home.partition.remembered.damaged.Add(-q.counts[broken])
	if j := q.home.partition.journal; j != nil {
		j.Evicted(q.resident)
	}
}

// keepInMemory drops e's message from memory if the journal does not allow it, and replaces e by a
// row if possible. Reserved messages stay in memory, because their transactions need them.
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

func (q *queue) release(e *entry) {
	if e.resident {
		q.home.partition.journal.Evicted(weightOf(e))
		q.resident -= weightOf(e)
		e.resident = false
	}
}

func (q *queue) skip() int64 {
	q.last++
	q.effects().do(Effect{Kind: EffectLast, Of: q.ref, Number: q.last})
	return q.last
}

// move changes e's state and records e in the journal. Make all other changes of e before.
func (q *queue) move(e *entry, to MessageState) {
	q.quit(e)
	e.state, e.delayed = to, false
	q.rejoin(e)
}

func (q *queue) delay(e *entry, nonce uint64, until int64) {
	q.quit(e)
	e.nonce, e.until, e.delayed = nonce, until, true
	q.rejoin(e)
}

func (q *queue) rejoin(e *entry) {
	q.join(e)
	q.effects().state(q, e)
}

func (q *queue) countDelivery(e *entry) {
	if !q.ref.Sub.IsDeadLetter() {
		e.failures++
	}
}

func (q *queue) override(e *entry, over core.Properties) {
	if over.IsEmpty() {
		return
	}
	size := e.size // an estimate, unless the message is in memory
	e.change(func(more *extra) {
		size -= len(more.overlay.Encoded())
		more.overlay = more.overlay.Merge(over)
		size += len(more.overlay.Encoded())
	})
	if e.message != nil {
		m := *e.message
		m.Properties = m.Properties.Merge(over)
		size = sizeOf(&m)
		e.message = &m
	}
	q.resize(e, size)
}

func (q *queue) resize(e *entry, size int) {
	q.release(e)
	q.grow(size - e.size)
	e.size = size
}

func (q *queue) grow(by int) {
	q.bytes += int64(by)
	q.home.partition.bytes += int64(by)
}

func (q *queue) join(e *entry) {
	q.counts[e.state]++
	if e.state == broken {
		q.home.partition.remembered.damaged.Add(1)
	}
	if e.sessionful && e.state < scheduled {
		q.addToSession(e)
	}
	switch e.state {
	case fresh:
		// Fresh messages are in no heap, because the log keeps them in order.
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

// quit removes e from what join has added it to. Call it before e's state or expiry changes.
func (q *queue) quit(e *entry) {
	q.counts[e.state]--
	if e.state == broken {
		q.home.partition.remembered.damaged.Add(-1)
	}
	if e.session != nil {
		q.removeFromSession(e)
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

// expires reports whether messages expire in q, which they do only in main queues.
func (q *queue) expires() bool { return q.ref.Sub == core.Main }

func (q *queue) mayExpire(e *entry) bool {
	return q.expires() && e.expires != 0 && e.state.isAvailable()
}

func (q *queue) hasExpired(e *entry, now int64) bool {
	return q.expires() && e.expires != 0 && e.expires <= now
}

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

// These estimates of memory, in bytes, exclude what Message.Size counts, and include the runtime's
// rounding. TestSizesMatchTheKeptMemory compares their sums with the heap.
const (
	entryWeight   = 570 // an entry, its message, and their places in the log and in one heap
	expiryWeight  = 40  // a place in the heap of expiries
	memberWeight  = 40  // a place in a heap of a session
	sessionWeight = 320 // a session and its places in the queue
	transitWeight = 64
	seenIDWeight  = 90 // an id of duplicate detection
)

// weightOf estimates e's bytes in memory, which do not depend on its state.
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

func sizeOf(m *core.Message) int {
	size := m.Size()
	if m.Transit != nil {
		size += transitWeight + len(m.Transit.DeadLetterSource) + len(m.Transit.Destination)
	}
	return size
}

func (s *session) weight() int { return sessionWeight + len(s.Key) + len(s.State) }
