package redis

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
)

// lostLocks are the leases of lock calls whose answers, or whose messages, could not be read. Such
// a call may have locked messages or a session for no receiver. If these locks expired, each would
// count as a failed delivery, so a message might be dead-lettered undelivered; in a session, later
// messages would be delivered first. So this gateway's next lock call on the partition ends them
// first. Without such a call, endLostLocks ends them within a second.
type lostLocks struct {
	mu     sync.Mutex
	leases []lease
}

func (l *lostLocks) add(each lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases = append(l.leases, each)
}

func (l *lostLocks) next(now int64) (each lease, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.leases) > 0 {
		if each = l.leases[0]; each.call != "" || each.until > now {
			return each, true
		}
		l.leases = l.leases[1:]
	}
	return lease{}, false
}

func (l *lostLocks) undone(each lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases = slices.DeleteFunc(l.leases, func(other lease) bool { return other == each })
}

// endLostLocks takes at most a second, because its caller must then register the gateway in time.
func (s *Store) endLostLocks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	now := s.millis()
	s.shards.mu.Lock()
	var lost []*shard
	for _, sh := range s.shards.all {
		if _, ok := sh.lostLocks.next(now); ok {
			lost = append(lost, sh)
		}
	}
	s.shards.mu.Unlock()
	for _, sh := range lost {
		if err := s.undoLostLocks(ctx, sh); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) undoLostLocks(ctx context.Context, sh *shard) error {
	for {
		l, ok := sh.lostLocks.next(s.millis())
		if !ok {
			return nil
		}
		sc, args := script.LockUndo, []any{secret(l.nonce), l.call}
		if sh.Sessions && l.call == "" { // the lock of a session, whose proof depends on its mode
			sc, args = script.EndLocksOf, []any{secret(l.nonce), secret(l.nonce) + "0"}
		}
		if _, err := s.transition(ctx, sh, s.millis(), sc, nil, args...); err != nil {
			return err
		}
		sh.lostLocks.undone(l)
	}
}
