package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

// receipt stands for one call, however often it is sent.
type receipt struct {
	shard *shard
	key   string // no other call in flight has it; "" if the call needs none
	id    string
	until time.Time // when the call is not sent again any more
	lost  error     // the error of a call whose answer was lost
}

// receiptKeys are the keys of a shard's receipts that are not in use.
type receiptKeys struct {
	mu   sync.Mutex
	free []string
	made int
}

// receipt begins a call.
func (s *Store) receipt(sh *shard) *receipt {
	k, r := &sh.receipts, s.repeatable(sh)
	k.mu.Lock()
	defer k.mu.Unlock()
	r.id = secret(core.NewNonce())
	if n := len(k.free); n > 0 {
		r.key, k.free = k.free[n-1], k.free[:n-1]
	} else {
		r.key = fmt.Sprintf("%s%s%x:%d", sh.keys.Prefix, keyspace.ReceiptSuffix, sh.mark, k.made)
		k.made++
	}
	return r
}

// repeatable begins a call that needs no receipt to be sent again.
func (s *Store) repeatable(sh *shard) *receipt {
	return &receipt{shard: sh, until: time.Now().Add(s.server.Endpoint.Patience.Wait)}
}

// end ends the call. A call that the server has not answered may still run, so it keeps its key.
func (r *receipt) end() {
	if r.key == "" || r.lost != nil {
		return
	}
	k := &r.shard.receipts
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free = append(k.free, r.key)
}

// again reports, after a pause, whether to send the call again. If not, outcome is the call's
// error: a call that was refused when it was sent again may have run before.
func (r *receipt) again(ctx context.Context, err error) (again bool, outcome error) {
	switch {
	case err == nil || r == nil:
		return false, err
	case conn.IsLost(err):
		r.lost = err
	case r.lost == nil || !conn.DidNotRun(err):
		return false, err
	}
	return time.Now().Before(r.until) && conn.Pause(ctx, conn.PatiencePause), r.lost
}

// arguments returns keys and args of a call with those of the receipt.
func (r *receipt) arguments(keys, args []any) ([]any, []any) {
	if r == nil || r.key == "" {
		return keys, args
	}
	return append(keys, r.key), append(args, r.id, server.Flag(r.lost != nil))
}
