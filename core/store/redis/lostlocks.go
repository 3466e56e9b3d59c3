package redis

import (
	"context"
	"sync"
)

// lostLocks are the leases of lock calls whose answers were lost. They may have locked messages that
// no receiver knows of: at the end of such a lock a message would have one failed delivery more,
// and might be dead-lettered without having been delivered at all. So the partition's next lock
// call of this gateway ends these locks first.
type lostLocks struct {
	mu     sync.Mutex
	leases []lease
}

func (l *lostLocks) add(each lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases = append(l.leases, each)
}

// next returns a lease whose locks are to be ended. Those that have ended by themselves are dropped.
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

// undone forgets a lease.
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
