package redis

import (
	"context"
	"errors"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
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
		if _, err := s.runUntilSwept(ctx, s.queueOf(sh), now, nil, script.Sweep, nil, 0); err != nil {
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
