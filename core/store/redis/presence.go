package redis

import (
	"context"
	"crypto/sha1"
	"encoding/binary"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
)

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
