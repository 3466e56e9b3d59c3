package state

import (
	"cmp"
	"math"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

// session is one session of a queue. It is forgotten when it has neither
// messages nor state and no receiver holds it.
type session struct {
	key      core.SessionKey
	messages int               // available, locked or deferred
	ready    timerHeap[*entry] // those that are available, by number
	locked   timerHeap[*entry] // those under lock, by number
	aside    timerHeap[*entry] // those that are deferred and not under lock, by number
	until    int64             // when its lock ends, as is said; 0: no receiver holds it
	nonce    uint64            // of the lock
	mode     core.SessionMode
	passed   uint32 // how often the lock has been taken over
	state    []byte // nil: none
	stated   int64  // when the state was set,
	stater   string // and the id as the receiver wrote it that set it
	turn     int64  // its turn in queue.waiting; 0: it does not wait there
	woken    bool   // the call under way calls the doorbells for its holder

	waitingPlace int // its place in queue.waiting
	heldPlace    int // its place in queue.held
}

func (s *session) isHeld() bool { return s.until != 0 }

// ends is when the lock of a session that is held really ends.
func (s *session) ends() int64 { return s.until + core.SessionGrace.Milliseconds() }

// ends is when the lock of an entry really ends.
func (e *entry) ends() int64 {
	if e.sessionful {
		return e.until + core.SessionGrace.Milliseconds()
	}
	return e.until
}

// id is the session's id as the receiver wrote it that set the state, else as
// the oldest message has it.
func (s *session) id() string {
	if s.state != nil {
		return s.stater
	}
	var oldest *entry
	for _, a := range [...]*timerHeap[*entry]{&s.ready, &s.locked, &s.aside} {
		if e := a.due(math.MaxInt64); e != nil && (oldest == nil || e.n < oldest.n) {
			oldest = e
		}
	}
	return oldest.sessionID()
}

// session returns the session of that key, made if need be.
func (q *queue) session(key core.SessionKey) *session {
	s := q.sessions[key]
	if s == nil {
		s = &session{key: key}
		if q.sessions == nil {
			q.sessions = make(map[core.SessionKey]*session)
		}
		q.sessions[key] = s
		q.keys.Insert(key)
		q.grow(s.weight())
	}
	return s
}

// enrol enters e in its session.
func (q *queue) enrol(e *entry) {
	s := q.session(e.sessionKey())
	e.session = s
	s.messages++
	switch {
	case e.state.isAvailable():
		// Other than in a queue without sessions, those delivered before need no
		// heap of their own: their numbers are lower.
		s.ready.add(e, e.n, e.n, &e.place)
	case e.state.IsLocked():
		s.locked.add(e, e.n, e.n, &e.sessionPlace)
	default:
		s.aside.add(e, e.n, e.n, &e.sessionPlace)
	}
	q.review(s)
}

// strike is the reverse of enrol.
func (q *queue) strike(e *entry) {
	s := e.session
	e.session = nil
	s.messages--
	switch {
	case e.state.isAvailable():
		s.ready.remove(e.place)
	case e.state.IsLocked():
		s.locked.remove(e.sessionPlace)
	default:
		s.aside.remove(e.sessionPlace)
	}
	q.review(s)
}

// hold gives the lock of s to the holder of nonce, or extends it. The locks of its
// messages end with it.
func (q *queue) hold(s *session, nonce uint64, until int64) {
	if s.isHeld() {
		q.held.remove(s.heldPlace)
	}
	s.nonce, s.until = nonce, until
	q.noteSession(s)
	q.held.add(s, s.ends(), 0, &s.heldPlace)
	for _, x := range s.locked.items {
		e := x.of
		q.locks.remove(e.place)
		e.until = until
		q.locks.add(e, e.ends(), e.n, &e.place)
	}
	q.review(s)
}

// letGo ends s's lock. The locks of its messages are the caller's.
func (q *queue) letGo(s *session) {
	q.held.remove(s.heldPlace)
	s.nonce, s.until, s.passed = 0, 0, 0
	q.noteSession(s)
	q.review(s)
}

// keep sets s's state, nil for none, for the receiver that wrote that id.
func (q *queue) keep(s *session, state []byte, now int64, id string) {
	q.grow(-s.weight())
	s.state, s.stated, s.stater = state, now, id
	q.noteSession(s)
	q.grow(s.weight())
	q.review(s)
}

// noteSession tells the journal of s, after any change but of its messages.
func (q *queue) noteSession(s *session) {
	if x := q.effects(); x != nil {
		x.Do(x.sessionOf(q, s))
	}
}

// review lets s wait for a holder if it should, behind those that wait already, and forgets it if it
// can, after any change.
func (q *queue) review(s *session) {
	waits := len(s.ready.items) > 0 && !s.isHeld()
	switch {
	case waits && s.turn == 0:
		q.turns++
		s.turn = q.turns
		q.waiting.add(s, s.turn, 0, &s.waitingPlace)
	case !waits && s.turn != 0:
		q.waiting.remove(s.waitingPlace)
		s.turn = 0
	}
	if s.messages == 0 && !s.isHeld() && s.state == nil {
		q.grow(-s.weight())
		delete(q.sessions, s.key)
		q.keys.Delete(s.key)
		if len(q.sessions) == 0 {
			q.sessions = nil // a map keeps the memory of the most that it ever held
		}
	}
}

// lineUp has the sessions wait by their first available messages.
func (q *queue) lineUp() {
	line := make([]*session, 0, len(q.waiting.items))
	for _, x := range q.waiting.items {
		line = append(line, x.of)
	}
	slices.SortFunc(line, func(x, y *session) int {
		return cmp.Compare(x.ready.items[0].at, y.ready.items[0].at)
	})
	q.waiting, q.turns = timerHeap[*session]{}, 0
	for _, s := range line {
		s.turn = 0
		q.review(s)
	}
}
