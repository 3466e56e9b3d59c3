package memstore

// session is one session of a queue. It is forgotten when it has neither
// messages nor state and nobody holds it.
type session struct {
	id       string
	messages int            // available, locked or deferred
	ready    agenda[*entry] // those that are available, by number
	locked   agenda[*entry] // those under lock, by number
	until    int64          // when its lock ends; 0: nobody holds it
	nonce    uint64         // of the lock
	state    []byte         // nil: none
	stated   int64          // when the state was set
	first    int64          // the number by which it waits in queue.waiting; 0: it does not
	rung     bool           // the turn under way rings for its holder

	waitingPlace int // its place in queue.waiting
	heldPlace    int // its place in queue.held
}

func (s *session) isHeld() bool { return s.until != 0 }

// session returns the session of that id, made if need be.
func (q *queue) session(id string) *session {
	s := q.sessions[id]
	if s == nil {
		s = &session{id: id}
		if q.sessions == nil {
			q.sessions = make(map[string]*session)
		}
		q.sessions[id] = s
	}
	return s
}

// enrol enters e in its session.
func (q *queue) enrol(e *entry) {
	s := q.session(e.message.SessionID)
	e.session = s
	s.messages++
	switch {
	case e.standing.isAvailable():
		// Other than in a queue without sessions, those delivered before need no
		// agenda of their own: their numbers are lower.
		s.ready.add(e, e.n, e.n, &e.place)
	case e.standing.isLocked():
		s.locked.add(e, e.n, e.n, &e.sessionPlace)
	}
	q.review(s)
}

// strike is the reverse of enrol.
func (q *queue) strike(e *entry) {
	s := e.session
	e.session = nil
	s.messages--
	switch {
	case e.standing.isAvailable():
		s.ready.remove(e.place)
	case e.standing.isLocked():
		s.locked.remove(e.sessionPlace)
	}
	q.review(s)
}

// hold gives s's lock to whoever knows nonce, or extends it. The locks of its
// messages end with it.
func (q *queue) hold(s *session, nonce uint64, until int64) {
	if s.isHeld() {
		q.held.remove(s.heldPlace)
	}
	s.nonce, s.until = nonce, until
	q.held.add(s, until, 0, &s.heldPlace)
	for _, x := range s.locked.items {
		e := x.of
		q.locks.remove(e.place)
		e.until = until
		q.locks.add(e, e.until, e.n, &e.place)
	}
	q.review(s)
}

// letGo ends s's lock. The locks of its messages are the caller's.
func (q *queue) letGo(s *session) {
	q.held.remove(s.heldPlace)
	s.nonce, s.until = 0, 0
	q.review(s)
}

// keep sets s's state, nil for none.
func (q *queue) keep(s *session, state []byte, now int64) {
	s.state, s.stated = state, now
	q.review(s)
}

// review lets s wait for a holder if it should, and forgets it if it can, after
// any change.
func (q *queue) review(s *session) {
	first := int64(0)
	if n, ok := s.ready.first(); ok && !s.isHeld() {
		first = n
	}
	if first != s.first {
		if s.first != 0 {
			q.waiting.remove(s.waitingPlace)
		}
		if first != 0 {
			q.waiting.add(s, first, 0, &s.waitingPlace)
		}
		s.first = first
	}
	if s.messages == 0 && !s.isHeld() && s.state == nil {
		delete(q.sessions, s.id)
	}
}
