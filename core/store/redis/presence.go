package redis

import (
	"context"
	"crypto/sha1"
	"encoding/binary"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
)

// markBytes is the number of bytes of a nonce that identify the gateway, for locks that end with their link.
const markBytes = 3

// markOf returns the first bytes of the nonces of a gateway's locks: those of sessions, and those
// that its broker takes for its own work. Nonces of version 8fcb296 begin with no gateway's mark.
func markOf(gateway string) string {
	sum := sha1.Sum([]byte(gateway))
	return string(sum[:markBytes])
}

// marked returns a nonce that begins with a mark.
func marked(mark string) uint64 {
	b := []byte(secret(core.NewNonce()))
	copy(b, mark)
	return binary.BigEndian.Uint64(b)
}

// peers are the registered gateways. A gateway has ended if its registration has not changed for
// gatewayLife. Only time in which the server has answered each of this gateway's looks counts.
type peers struct {
	mu    sync.Mutex
	known map[string]*peer // by id
	asked time.Time
}

type peer struct {
	registered string
	since      time.Time
	done       map[string]bool // doorbells of partitions in which this gateway's locks have been ended
}

// forgetAfter is how long a gateway stays known after its last registration. By then all others have ended its locks.
const forgetAfter = time.Minute

// note takes the registrations at a time, and returns the ids of the gateways that are present or to be forgotten.
func (p *peers) note(registered map[string]string, now time.Time) (there, forgotten []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	anew := now.Sub(p.asked) > 3*clockRefresh
	before := p.known
	p.asked, p.known = now, make(map[string]*peer, len(registered))
	for id, text := range registered {
		each := before[id]
		switch {
		case each == nil || each.registered != text:
			each = &peer{registered: text, since: now}
		case anew:
			each.since = now
		}
		p.known[id] = each
		switch quiet := now.Sub(each.since); {
		case quiet < gatewayLife:
			there = append(there, id)
		case quiet >= forgetAfter:
			forgotten = append(forgotten, id)
		}
	}
	return there, forgotten
}

// ended returns the marks of gateways that have ended and whose locks in a partition must still be
// ended. done must be called afterwards.
func (p *peers) ended(channel string) (marks []any, done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var of []*peer
	for id, each := range p.known {
		if p.asked.Sub(each.since) >= gatewayLife && !each.done[channel] {
			marks, of = append(marks, markOf(id)), append(of, each)
		}
	}
	return marks, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, each := range of {
			if each.done == nil {
				each.done = make(map[string]bool)
			}
			each.done[channel] = true
		}
	}
}

// endLocks ends the locks in a partition of gateways that have ended, and reports whether there are such gateways.
func (p *handle) endLocks(ctx context.Context, sh *shard) (bool, error) {
	marks, done := p.peers.ended(sh.keys.Doorbell)
	if len(marks) == 0 {
		return false, nil
	}
	if _, _, err := p.transition(ctx, sh, p.millis(), script.EndLocksOf, nil, marks...); err != nil {
		return false, err
	}
	done()
	return true, nil
}

// endLocks ends the locks of ended gateways in all partitions that this gateway waits for.
func (s *Store) endLocks(ctx context.Context) (err error) {
	for _, p := range s.doorbells.handles() {
		sh, done := p.shard(p.place)
		if _, failed := p.endLocks(ctx, sh); failed != nil {
			err = failed
		}
		done()
	}
	return err
}
