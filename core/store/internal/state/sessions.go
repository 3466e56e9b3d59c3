package state

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func (p *handle) AcceptSession(_ context.Context, r core.SessionRequest) (l core.SessionLock, ok bool, next time.Time, err error) {
	t, there := p.enter()
	switch {
	case there:
		l, ok, err = t.acceptSession(&r)
		if !ok && err == nil {
			next = core.Instant(t.queue.next())
		}
		t.leave()
		err = cmp.Or(p.stopped(), err)
	case r.Next:
		return l, false, next, nil
	case r.TakeOver.IsZero():
		err = core.NotFound
	default:
		err = core.SessionLockLost
	}
	if err != nil {
		return core.SessionLock{}, false, time.Time{}, fmt.Errorf("cannot accept a session of %v: %w", p.Ref, err)
	}
	return l, ok, next, nil
}

// acceptSession returns false if no session waits.
func (t *txn) acceptSession(r *core.SessionRequest) (l core.SessionLock, ok bool, err error) {
	id := r.ID
	x := t.queue.sessions[core.KeyOfSession(id)]
	held := x != nil && x.isHeld()
	switch {
	case r.Next:
		if x = t.queue.waiting.due(math.MaxInt64); x == nil {
			return l, false, nil
		}
		id = x.ready.due(math.MaxInt64).sessionID() // in the spelling (upper and lower case) of the session's oldest available message
	case !r.TakeOver.IsZero() && !held:
		return l, false, core.SessionLockLost
	case !r.TakeOver.IsZero(): // the messages of the session stay locked
		if l := t.lockOf(x, id); l.Token() != r.TakeOver {
			return core.SessionLock{}, false, core.SessionLocked
		}
		x.Passed++
		t.queue.hold(x, x.Nonce, t.lockEnd())
		t.wakeHolder(t.queue, x)
		return t.lockOf(x, id), true, nil
	case held:
		return l, false, core.SessionLocked
	default:
		x = t.queue.session(core.KeyOfSession(id))
	}
	x.Mode = r.Mode
	t.queue.hold(x, core.NewNonce(), t.lockEnd())
	return t.lockOf(x, id), true, nil
}

func (t *txn) lockOf(x *session, id string) core.SessionLock {
	return core.SessionLock{ID: id, Index: t.Ref.Index, Nonce: x.Nonce, Mode: x.Mode, TakeOvers: x.Passed, Until: core.Instant(x.Until)}
}

// If l is lost or nil, enterSession returns SessionLockLost and begins no call. prepared is the
// result of Store.begin, or nil.
func (p *handle) enterSession(l *core.SessionLock, prepared *effects) (t txn, x *session, err error) {
	t, ok := p.enterWith(prepared)
	if ok {
		if x = t.holds(l); x != nil {
			return t, x, nil
		}
		t.leave()
	}
	return txn{}, nil, p.sessionLockLost()
}

func (p *handle) sessionLockLost() error {
	return fmt.Errorf("cannot use the lock of a session of %v: %w", p.Ref, cmp.Or(p.stopped(), error(core.SessionLockLost)))
}

// checkState returns QuotaExceeded if the partition is full and state is larger than that of x.
func (t *txn) checkState(x *session, state []byte) error {
	if len(state) <= len(x.State) {
		return nil
	}
	return core.CheckSize(t.bytes, t.MaxBytes)
}

func (t *txn) holds(l *core.SessionLock) *session {
	if l == nil {
		return nil
	}
	x := t.held(l)
	if x == nil || x.Nonce != l.Nonce || x.Mode != l.Mode || x.Passed != l.TakeOvers {
		return nil
	}
	return x
}

// held returns the session of l if any receiver holds it, otherwise nil.
func (t *txn) held(l *core.SessionLock) *session {
	x := t.queue.sessions[l.Key()]
	if x == nil || !x.isHeld() || x.ends() <= t.now || l.Index != t.Ref.Index {
		return nil
	}
	return x
}

func (p *handle) RenewSession(_ context.Context, l core.SessionLock) (time.Time, error) {
	t, x, err := p.enterSession(&l, nil)
	if err != nil {
		return time.Time{}, err
	}
	t.queue.hold(x, x.Nonce, t.lockEnd())
	until := core.Instant(x.Until)
	t.leave()
	return until, p.stopped()
}

func (p *handle) ReleaseSession(_ context.Context, l core.SessionLock) error {
	t, ok := p.enter()
	if !ok {
		return p.sessionLockLost()
	}
	x := t.holds(&l)
	if l.Nonce == 0 {
		x = t.held(&l)
	}
	if x == nil {
		t.leave()
		return p.sessionLockLost()
	}
	if l.Nonce == 0 {
		t.wakeHolder(t.queue, x) // the holder must learn that it has lost the session
	}
	for e := x.locked.due(math.MaxInt64); e != nil; e = x.locked.due(math.MaxInt64) {
		t.note(core.EventReleased, t.queue, e)
		t.unlock(t.queue, e, "")
	}
	t.letGo(t.queue, x)
	t.leave()
	return p.stopped()
}

func (t *txn) letGo(q *queue, x *session) {
	q.letGo(x)
	t.wakeSession(q, x)
}

func (t *txn) wakeSession(q *queue, x *session) {
	switch {
	case x.isHeld():
		t.wakeHolder(q, x)
	case x.turn != 0:
		t.wakeReceivers(q)
	}
}

func (q *queue) firstOf(key core.SessionKey, from int64, limit int) (first []*entry) {
	keep := func() {
		slices.SortFunc(first, byNumber)
		first = first[:min(limit, len(first))]
	}
	heaps := []*timerHeap[*entry]{&q.schedules}
	if x := q.sessions[key]; x != nil {
		heaps = append(heaps, &x.ready, &x.locked, &x.aside)
	}
	for i, heap := range heaps {
		for e := range heap.all() {
			if e.n >= from && e.state < reserved && (i > 0 || e.sessionful && e.sessionKey() == key) {
				if first = append(first, e); len(first) > 2*limit+1024 { // bounds the memory for a large session
					keep()
				}
			}
		}
	}
	keep()
	return first
}

func (p *handle) SessionState(ctx context.Context, l core.SessionLock) ([]byte, error) {
	t, x, err := p.enterSession(&l, nil)
	if err != nil {
		return nil, err
	}
	state := slices.Clone(x.State)
	t.leave()
	return state, t.wait(ctx)
}

func (p *handle) SetSessionState(ctx context.Context, l core.SessionLock, state []byte) error {
	room, err := p.begin(ctx, func(x *effects) error {
		x.Room(len(state))
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot set the state of a session of %v: %w", p.Ref, err)
	}
	t, x, err := p.enterSession(&l, room)
	if err != nil {
		return err
	}
	if err = t.checkState(x, state); err == nil {
		t.queue.keep(x, slices.Clone(state), t.now, l.ID)
	}
	t.leave()
	return cmp.Or(err, t.wait(ctx))
}

const listSlice = 1000

func (p *handle) ListSessions(_ context.Context, since time.Time, after core.SessionKey, top int) (ids []string, err error) {
	for more := true; more; {
		ids, after, more = p.listSlice(ids, since, after, top)
	}
	return ids, p.stopped()
}

// listSlice appends up to top ids. more means that it stopped early, so that other calls can run.
func (p *handle) listSlice(ids []string, since time.Time, after core.SessionKey, top int) (_ []string, last core.SessionKey, more bool) {
	t, ok := p.enter()
	if !ok {
		return nil, "", false
	}
	defer t.leave()
	last = after
	looked := 0
	t.queue.keys.Ascend(after, func(key core.SessionKey) bool {
		if len(ids) >= top {
			return false
		}
		if more = looked == listSlice; more {
			return false
		}
		looked++
		x := t.queue.sessions[key]
		fits := x.State != nil || x.messages > 0
		if !since.IsZero() {
			fits = x.State != nil && x.Stated > since.UnixMilli()
		}
		if fits && key > after {
			ids = append(ids, x.id())
		}
		last = key
		return true
	})
	return ids, last, more
}

func (p *handle) DescribeSessions(_ context.Context, ids []string, content bool) ([]core.SessionInfo, error) {
	all := make([]core.SessionInfo, len(ids))
	for i, id := range ids {
		all[i].ID = id
	}
	t, ok := p.enter()
	if !ok {
		return all, nil
	}
	defer t.leave()
	for i := range all {
		x := t.queue.sessions[core.KeyOfSession(ids[i])]
		if x == nil {
			continue
		}
		told := &all[i]
		told.Available, told.Locked, told.Deferred = int64(len(x.ready.items)), int64(len(x.locked.items)), int64(len(x.aside.items))
		told.Delayed = int64(x.pauses)
		told.Locked, told.Deferred = told.Locked+told.Delayed, told.Deferred-told.Delayed
		told.HasState, told.StateBytes = x.State != nil, int64(len(x.State))
		told.LockedUntil = core.Instant(x.Until)
		if content {
			told.State = slices.Clone(x.State)
		}
	}
	return all, p.stopped()
}

// session exists as long as it has messages or state, or a receiver holds it.
type session struct {
	Session
	messages int               // number of messages, without scheduled ones
	ready    timerHeap[*entry] // available, by number
	locked   timerHeap[*entry] // locked and not delayed, by number
	aside    timerHeap[*entry] // deferred and not locked, or delayed, by number
	pauses   int               // number of delayed entries that stop delivery of the session
	turn     int64             // order in queue.waiting; 0: not waiting
	woken    bool              // the current call already notifies watchers for the session's holder

	waitingPlace int
	heldPlace    int
}

func byKey(x, y *session) int { return cmp.Compare(x.Key, y.Key) }

func (s *session) isHeld() bool { return s.Until != 0 }

// ends returns when others can get the lock: SessionGrace after the end that the holder knows.
func (s *session) ends() int64 { return s.Until + core.SessionGrace.Milliseconds() }

// pauses reports whether e is delayed and stops the delivery of all messages of its session.
func (e *entry) pauses() bool { return e.delayed && e.state == locked }

// ends returns the lock's end: in a session, SessionGrace after the end that the receiver knows.
func (e *entry) ends() int64 {
	if e.sessionful && !e.delayed {
		return e.until + core.SessionGrace.Milliseconds()
	}
	return e.until
}

// id has the spelling of the receiver that set the state or, without state, of the oldest message.
func (s *session) id() string {
	if s.State != nil {
		return s.Stater
	}
	var oldest *entry
	for _, a := range [...]*timerHeap[*entry]{&s.ready, &s.locked, &s.aside} {
		if e := a.due(math.MaxInt64); e != nil && (oldest == nil || e.n < oldest.n) {
			oldest = e
		}
	}
	return oldest.sessionID()
}

func (q *queue) session(key core.SessionKey) *session {
	s := q.sessions[key]
	if s == nil {
		s = &session{Session: Session{Key: key}}
		if q.sessions == nil {
			q.sessions = make(map[core.SessionKey]*session)
		}
		q.sessions[key] = s
		q.keys.Insert(key)
		q.grow(s.weight())
	}
	return s
}

// heapOf returns the heap of s that has e, and where e keeps its place. In a session, messages that
// were delivered before always have lower numbers than the others, so ordering by number is enough.
func (s *session) heapOf(e *entry) (heap *timerHeap[*entry], place *int) {
	switch {
	case e.state.isAvailable():
		return &s.ready, &e.place
	case e.state.IsLocked() && !e.delayed:
		return &s.locked, &e.sessionPlace
	default:
		return &s.aside, &e.sessionPlace
	}
}

func (q *queue) addToSession(e *entry) {
	s := q.session(e.sessionKey())
	e.session = s
	s.messages++
	heap, place := s.heapOf(e)
	heap.add(e, e.n, e.n, place)
	if e.pauses() {
		s.pauses++
	}
	q.review(s)
}

func (q *queue) removeFromSession(e *entry) {
	s := e.session
	e.session = nil
	s.messages--
	heap, place := s.heapOf(e)
	heap.remove(*place)
	if e.pauses() {
		s.pauses--
	}
	q.review(s)
}

// hold locks s, with the nonce, until the time until. The locks of its messages then end, too.
func (q *queue) hold(s *session, nonce uint64, until int64) {
	if s.isHeld() {
		q.held.remove(s.heldPlace)
	}
	s.Nonce, s.Until = nonce, until
	q.effects().session(q, s)
	q.held.add(s, s.ends(), 0, &s.heldPlace)
	for e := range s.locked.all() {
		q.locks.remove(e.place)
		e.until = until
		q.locks.add(e, e.ends(), e.n, &e.place)
	}
	q.review(s)
}

// letGo ends s's lock. The caller must end the locks of the session's messages.
func (q *queue) letGo(s *session) {
	q.held.remove(s.heldPlace)
	s.Nonce, s.Until, s.Passed = 0, 0, 0
	q.effects().session(q, s)
	q.review(s)
}

// keep sets the state of s; nil removes it. id is the receiver's spelling of the session id.
func (q *queue) keep(s *session, state []byte, now int64, id string) {
	q.grow(-s.weight())
	s.State, s.Stated, s.Stater = state, now, id
	q.effects().session(q, s)
	q.grow(s.weight())
	q.review(s)
}

// review must be called after every change of s. It puts s at the end of the waiting sessions if s
// now needs a receiver, and removes s if nothing is left of it.
func (q *queue) review(s *session) {
	waits := len(s.ready.items) > 0 && !s.isHeld() && s.pauses == 0
	switch {
	case waits && s.turn == 0:
		q.turns++
		s.turn = q.turns
		q.waiting.add(s, s.turn, 0, &s.waitingPlace)
	case !waits && s.turn != 0:
		q.waiting.remove(s.waitingPlace)
		s.turn = 0
	}
	if s.messages == 0 && !s.isHeld() && s.State == nil {
		q.grow(-s.weight())
		delete(q.sessions, s.Key)
		q.keys.Delete(s.Key)
		if len(q.sessions) == 0 {
			q.sessions = nil // frees the memory of a peak: a map never shrinks
		}
	}
}

func (q *queue) lineUp() {
	line := slices.SortedFunc(q.waiting.all(), func(x, y *session) int {
		return cmp.Compare(x.ready.items[0].at, y.ready.items[0].at)
	})
	q.waiting, q.turns = timerHeap[*session]{}, 0
	for _, s := range line {
		s.turn = 0
		q.review(s)
	}
}
