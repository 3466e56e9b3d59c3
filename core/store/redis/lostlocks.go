package redis

import (
	"context"
	"sync"
)

// lostLocks are the leases of lock calls whose answers were lost. Such a call may have locked
// messages of which no receiver knows. When such a lock ends, a failed delivery is counted, so a
// message might be dead-lettered without ever having been delivered. Therefore this gateway's next
// lock call on the partition ends these locks first.
type lostLocks struct {
	mu     sync.Mutex
	leases []lease
}

func (l *lostLocks) add(each lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases = append(l.leases, each)
}

// next returns a lease whose locks must be ended. It drops leases that have expired.
func (l *lostLocks) next(now int64) (each lease, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.leases) > 0 {
		if each = l.leases[0]; each.until > now {
			return each, true
		}
		l.leases = l.leases[1:]
	}
	return lease{}, false
}

// undone forgets a lease whose locks have been ended.
func (l *lostLocks) undone(each lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.leases {
		if l.leases[i] == each {
			l.leases = append(l.leases[:i:i], l.leases[i+1:]...)
			return
		}
	}
}

// lostCalls are lock calls in sessions whose answers were lost, by the nonce of the session's lock. Each is the
// score in locks of what it has locked. The next lock call in the session ends these locks first: otherwise
// later messages would be delivered before theirs.
type lostCalls struct {
	mu    sync.Mutex
	calls map[uint64][]any
}

func (l *lostCalls) add(nonce uint64, call any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = map[uint64][]any{}
	}
	l.calls[nonce] = append(l.calls[nonce], call)
}

func (l *lostCalls) of(nonce uint64) []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[nonce]
}

// forget is called when the locks of the calls, or that of the session, have ended.
func (l *lostCalls) forget(nonce uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, nonce)
}

// undoLostLocks ends the locks of calls whose answers were lost.
func (s *Store) undoLostLocks(ctx context.Context, sh *shard) error {
	for {
		l, ok := sh.lostLocks.next(s.millis())
		if !ok {
			return nil
		}
		if _, _, err := s.transition(ctx, sh, s.millis(), lockUndoScript, nil, secret(l.nonce)); err != nil {
			return err
		}
		sh.lostLocks.undone(l)
	}
}
