package memstore

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// AcceptSession locks a session, whether or not there is anything in it.
func (s *Store) AcceptSession(_ context.Context, p core.Partition, id string) (core.SessionLock, error) {
	t, ok := s.enter(p)
	if !ok {
		return core.SessionLock{}, fmt.Errorf("accept session of %s/%d: %w", p.Entity, p.Index, core.NotFound)
	}
	defer t.leave()
	if known := t.queue.sessions[id]; known != nil && known.isHeld() {
		return core.SessionLock{}, fmt.Errorf("accept session of %s/%d: %w", p.Entity, p.Index, core.SessionLocked)
	}
	return t.accept(t.queue.session(id)), nil
}

// AcceptNextSession locks the session that waits with the oldest message.
func (s *Store) AcceptNextSession(_ context.Context, p core.Partition) (core.SessionLock, bool, time.Time, error) {
	t, ok := s.enter(p)
	if !ok {
		return core.SessionLock{}, false, time.Time{}, nil
	}
	defer t.leave()
	first := t.queue.waiting.due(math.MaxInt64)
	if first == nil {
		return core.SessionLock{}, false, instant(t.queue.next()), nil
	}
	return t.accept(first), true, time.Time{}, nil
}

// accept locks a session that nobody holds.
func (t *turn) accept(x *session) core.SessionLock {
	t.queue.hold(x, rand.Uint64(), t.lockEnd())
	return core.SessionLock{ID: x.id, Index: t.ref.Index, Nonce: x.nonce, Until: instant(x.until)}
}

// enterSession is enter for the holder of a session. It answers SessionLockLost,
// and no turn, when l is held no more.
func (s *Store) enterSession(p core.Partition, l core.SessionLock) (t turn, x *session, err error) {
	t, ok := s.enter(p)
	if ok {
		if x = t.holds(&l); x != nil {
			return t, x, nil
		}
		t.leave()
	}
	return turn{}, nil, fmt.Errorf("session of %s/%d: %w", p.Entity, p.Index, core.SessionLockLost)
}

// holds returns the session whose lock l proves, or nil if the lock is lost.
func (t *turn) holds(l *core.SessionLock) *session {
	x := t.queue.sessions[l.ID]
	if x == nil || !x.isHeld() || x.nonce != l.Nonce || l.Index != t.ref.Index {
		return nil
	}
	return x
}

// RenewSession extends a session's lock and those of its messages.
func (s *Store) RenewSession(_ context.Context, p core.Partition, l core.SessionLock) (time.Time, error) {
	t, x, err := s.enterSession(p, l)
	if err != nil {
		return time.Time{}, err
	}
	defer t.leave()
	t.queue.hold(x, x.nonce, t.lockEnd())
	return instant(x.until), nil
}

// ReleaseSession ends a session's lock and those of its messages, by number.
func (s *Store) ReleaseSession(_ context.Context, p core.Partition, l core.SessionLock) error {
	t, x, err := s.enterSession(p, l)
	if err != nil {
		return err
	}
	defer t.leave()
	for e := x.locked.due(math.MaxInt64); e != nil; e = x.locked.due(math.MaxInt64) {
		t.note(core.EventReleased, t.queue, e)
		t.unlock(t.queue, e, "")
	}
	t.letGo(t.queue, x)
	return nil
}

// letGo ends the lock of a session and tells those who wait for one.
func (t *turn) letGo(q *queue, x *session) {
	q.letGo(x)
	if x.first != 0 {
		t.ring(q)
	}
}

// LockInSession claims up to limit available messages of a session by number.
func (s *Store) LockInSession(_ context.Context, p core.Partition, l core.SessionLock, limit int) ([]core.Delivery, time.Time, error) {
	t, x, err := s.enterSession(p, l)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer t.leave()
	deliveries := make([]core.Delivery, min(max(limit, 0), len(x.ready.items)))
	for i := range deliveries {
		deliveries[i] = t.lock(x.ready.due(math.MaxInt64), locked, x.nonce, x.until)
	}
	if len(deliveries) >= limit {
		return deliveries, time.Time{}, nil
	}
	return deliveries, instant(t.queue.next()), nil
}

// SessionState returns what was set last.
func (s *Store) SessionState(_ context.Context, p core.Partition, l core.SessionLock) ([]byte, error) {
	t, x, err := s.enterSession(p, l)
	if err != nil {
		return nil, err
	}
	defer t.leave()
	return slices.Clone(x.state), nil
}

// SetSessionState keeps state with the session until it is set to nil.
func (s *Store) SetSessionState(_ context.Context, p core.Partition, l core.SessionLock, state []byte) error {
	t, x, err := s.enterSession(p, l)
	if err != nil {
		return err
	}
	defer t.leave()
	t.queue.keep(x, slices.Clone(state), t.now)
	return nil
}

// ListSessions lists sessions by id.
func (s *Store) ListSessions(_ context.Context, p core.Partition, since time.Time, after string, top int) ([]string, error) {
	t, ok := s.enter(p)
	if !ok {
		return nil, nil
	}
	defer t.leave()
	var ids []string
	for id, x := range t.queue.sessions {
		listed := x.state != nil || x.messages > 0
		if !since.IsZero() {
			listed = x.state != nil && x.stated > since.UnixMilli()
		}
		if listed && id > after {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(max(top, 0), len(ids))], nil
}
