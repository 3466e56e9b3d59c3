package redis

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
)

// eval runs a script once and returns its reply, even if the error is a notReplicated.
func (s *Store) eval(ctx context.Context, sc *script.Script, keys []any, args ...any) (any, error) {
	if !sc.Fits(len(keys), len(args)) {
		return nil, fmt.Errorf("script %s called with %d keys and %d arguments: %w", sc.Name, len(keys), len(args), core.Internal)
	}
	var how exchangeMode
	if sc.Awaited {
		how = replicated
	}
	return s.ask(ctx, how, sc.Command(keys, args...)...)
}

// do sends one command, once. If its answer is lost, it may have run and must not be repeated.
func (s *Store) do(ctx context.Context, args ...any) (any, error) {
	return s.ask(ctx, 0, args...)
}

// ask sends one command, once.
func (s *Store) ask(ctx context.Context, how exchangeMode, args ...any) (any, error) {
	c := redis.NewCmd(ctx, args...)
	err := s.exchange(ctx, how, c)
	return c.Val(), err
}

// transition runs a script on a partition's state, repeatedly until everything due at now has been
// swept. If the script refuses, code says why.
func (s *Store) transition(ctx context.Context, sh *shard, now int64, sc *script.Script, keys []any, args ...any) (reply []any, code core.Code, err error) {
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

// transitionUnder is transition with a receipt, or with nil if the call is not sent again.
func (s *Store) transitionUnder(ctx context.Context, sh *shard, now int64, r *receipt, sc *script.Script, keys []any, args ...any) (reply []any, code core.Code, err error) {
	if sh.Sub.IsDeadLetter() {
		// Messages that are due in the queue itself may become dead letters.
		if _, _, err := s.runUntilSwept(ctx, s.queueOf(sh), now, nil, script.Sweep, nil, 0); err != nil {
			return nil, "", err
		}
	}
	return s.runUntilSwept(ctx, sh, now, r, sc, keys, args...)
}

// sweep carries out what is due, as every operation does first.
func (s *Store) sweep(ctx context.Context, sh *shard) error {
	_, _, err := s.transition(ctx, sh, s.millis(), script.Sweep, nil, 0)
	return err
}

func (s *Store) runUntilSwept(ctx context.Context, sh *shard, now int64, r *receipt, sc *script.Script, keys []any, args ...any) ([]any, core.Code, error) {
	sc = sc.With(sh.features)
	allKeys := slices.Clip(sh.state)
	if len(keys) > 0 {
		allKeys = append(allKeys, keys...)
	}
	allArgs := append(sh.stateArgs(now), args...)
	for {
		theseKeys, theseArgs := r.arguments(allKeys, allArgs)
		raw, err := s.eval(ctx, sc, theseKeys, theseArgs...)
		reply, _ := raw.([]any)
		var again bool
		if again, err = r.again(ctx, err); again {
			continue
		}
		if err != nil {
			if word, _ := first(reply).(string); word == "ok" { // replicas are too few
				return reply[1:], "", err
			}
			return nil, "", err
		}
		if len(reply) == 0 {
			return nil, "", fmt.Errorf("script %s answered %T: %w", sc.Name, raw, core.Internal)
		}
		word, _ := reply[0].(string)
		switch word {
		case "ok":
			return reply[1:], "", nil
		case "more":
		default:
			return nil, core.Code(word), nil
		}
	}
}
