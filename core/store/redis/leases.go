package redis

import (
	"crypto/sha1"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
)

type lease struct {
	nonce uint64
	until int64  // ms; in a session, the end of its lock
	call  string // in a session, the score of the locks of this call, because all calls have the same nonce
}

// The script's answer sets until.
func leaseIn(session *core.SessionLock) lease {
	score := 1<<53 + core.NewNonce()>>12<<1 // later than any deadline; even, so that a float64 holds it exactly
	return lease{nonce: session.Nonce, call: strconv.FormatUint(score, 10)}
}

func (l lease) score() any {
	if l.call != "" {
		return l.call
	}
	return l.until
}

func secret(nonce uint64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], nonce)
	return string(b[:])
}

func proofOf(l *core.SessionLock) string {
	if l.Mode == core.Exclusive {
		return secret(l.Nonce)
	}
	return secret(l.Nonce) + strconv.FormatUint(uint64(l.TakeOvers), 10)
}

// lostLocks are the leases of lock calls whose answers, or whose messages, could not be read. Such
// a call may have locked messages or a session for no receiver. If these locks expired, each would
// count as a failed delivery, so a message might be dead-lettered undelivered; in a session, later
// messages would be delivered first. So this gateway's next lock call on the partition ends them
// first. Without such a call, endLostLocks ends them within a second.
type lostLocks struct {
	mu     sync.Mutex
	leases map[place][]lease
}

func (l *lostLocks) add(p place, each lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases[p] = append(l.leases[p], each)
}

func (l *lostLocks) next(p place, now int64) (each lease, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.leases) == 0 {
		return lease{}, false
	}
	for _, each := range l.leases[p] {
		if each.call != "" || each.until > now {
			return each, true
		}
	}
	delete(l.leases, p)
	return lease{}, false
}

func (l *lostLocks) undone(p place, each lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases[p] = slices.DeleteFunc(l.leases[p], func(other lease) bool { return other == each })
}

func (l *lostLocks) places() []place {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.leases))
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
