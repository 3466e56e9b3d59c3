package redis

import (
	"context"
	"crypto/sha1"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
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

const markBytes = 3 // of a nonce, which identify a gateway

// markOf returns the first bytes of the nonces of a gateway's locks on sessions and of its broker's
// locks. By these bytes, other gateways find and end the locks after the gateway has ended. Nonces
// of version 8fcb296 have no mark.
func markOf(gateway string) string {
	sum := sha1.Sum([]byte(gateway))
	return string(sum[:markBytes])
}

func marked(mark string) uint64 {
	b := []byte(secret(core.NewNonce()))
	copy(b, mark)
	return binary.BigEndian.Uint64(b)
}

// endLocks ends the locks of ended gateways. It returns false if there are no such gateways.
func (p *handle) endLocks(ctx context.Context, sh *shard) (bool, error) {
	ids, done := p.server.Peers.Ended(sh.keys.Doorbell)
	if len(ids) == 0 {
		return false, nil
	}
	var marks []any
	for _, id := range ids {
		marks = append(marks, markOf(id))
	}
	if _, err := p.transition(ctx, sh, p.millis(), script.EndLocksOf, nil, marks...); err != nil {
		return false, err
	}
	done()
	return true, nil
}

// Watch also wakes w when it begins to listen, because w may have missed earlier messages.
func (p *handle) Watch(w core.Watcher) (stop func()) {
	return p.doorbells.Add(p.Ref, func(ctx context.Context) error {
		sh, done := p.shard(p.place)
		defer done()
		_, err := p.endLocks(ctx, sh)
		return err
	}, w)
}
