package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

// transition repeats the script until everything that is due at now is done.
func (s *Store) transition(ctx context.Context, sh *shard, now int64, sc *script.Script, keys []any, args ...any) ([]any, error) {
	var r *receipt
	switch {
	case sc.Receipted:
		r = s.receipt(sh)
		defer r.end()
	case sc.Repeatable:
		r = s.repeatable(sh)
	}
	return s.transitionUnder(ctx, sh, now, r, sc, keys, args...)
}

// transitionUnder is transition with the receipt r. Without r, a lost answer ends the call.
func (s *Store) transitionUnder(ctx context.Context, sh *shard, now int64, r *receipt, sc *script.Script, keys []any, args ...any) ([]any, error) {
	if sh.Sub.IsDeadLetter() {
		// Due messages of the main queue may become dead letters.
		if _, err := s.runUntilSwept(ctx, s.queueOf(sh), now, s.repeatable(sh), script.Sweep, nil, 0); err != nil {
			return nil, err
		}
	}
	return s.runUntilSwept(ctx, sh, now, r, sc, keys, args...)
}

func (s *Store) sweep(ctx context.Context, sh *shard) error {
	_, err := s.transition(ctx, sh, s.millis(), script.Sweep, nil, 0)
	return err
}

func (s *Store) runUntilSwept(ctx context.Context, sh *shard, now int64, r *receipt, sc *script.Script, keys []any, args ...any) ([]any, error) {
	sc = sc.With(sh.features)
	allKeys := slices.Clip(sh.state)
	if len(keys) > 0 {
		allKeys = append(allKeys, keys...)
	}
	allArgs := append(sh.stateArgs(now), args...)
	for {
		theseKeys, theseArgs := r.arguments(allKeys, allArgs)
		reply, err := s.server.Eval(ctx, sc, theseKeys, theseArgs...)
		again, err := r.again(ctx, err)
		if !again && !errors.Is(err, more) {
			return reply, err
		}
	}
}

// more is the answer of a script that has not yet done everything that is due.
const more = core.Code("more")

// receipt identifies one call, however often it is sent, so that Redis can answer a repetition with
// the result of the first execution.
type receipt struct {
	shard *shard
	key   string // one key per call in progress; "": the call needs no receipt
	id    string
	until time.Time
	lost  error // set after the answer was lost
}

func (s *Store) receipt(sh *shard) *receipt {
	k, r := &sh.receipts, s.repeatable(sh)
	k.mu.Lock()
	defer k.mu.Unlock()
	r.id = secret(core.NewNonce())
	if n := len(k.free); n > 0 {
		r.key, k.free = k.free[n-1], k.free[:n-1]
	} else {
		// The number is unique in the store, because shards of different policies may share a prefix.
		r.key = fmt.Sprintf("%s%s%x:%d", sh.keys.Prefix, keyspace.ReceiptSuffix, sh.mark, s.receipts.Add(1))
	}
	return r
}

// repeatable returns a receipt without a key: the call may run twice, so Redis keeps no answer.
func (s *Store) repeatable(sh *shard) *receipt {
	return &receipt{shard: sh, until: time.Now().Add(s.server.Endpoint.Patience.Wait)}
}

// end makes the key free again, unless the answer was lost: then the call may still run.
func (r *receipt) end() {
	if r.key == "" || r.lost != nil {
		return
	}
	k := &r.shard.receipts
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free = append(k.free, r.key)
}

// again reports whether to send the call again. If not, outcome is its error. After a lost answer,
// the outcome stays unknown even if a repetition was refused: the first attempt may have run.
func (r *receipt) again(ctx context.Context, err error) (again bool, outcome error) {
	switch {
	case err == nil || r == nil:
		return false, err
	case conn.IsLost(err):
		r.lost = err
	case r.lost == nil || !conn.DidNotRun(err):
		return false, err
	}
	return time.Now().Before(r.until) && wake.After(ctx, conn.PatiencePause), r.lost
}

func (r *receipt) arguments(keys, args []any) ([]any, []any) {
	if r == nil || r.key == "" {
		return keys, args
	}
	return append(keys, r.key), append(args, r.id)
}
