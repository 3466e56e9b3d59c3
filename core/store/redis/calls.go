package redis

import (
	"context"
	"fmt"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

// transition repeats the script until all due at now is done. code is the script's refusal, or "".
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

// transitionUnder is transition with the receipt r. Without r, a lost answer ends the call.
func (s *Store) transitionUnder(ctx context.Context, sh *shard, now int64, r *receipt, sc *script.Script, keys []any, args ...any) (reply []any, code core.Code, err error) {
	if sh.Sub.IsDeadLetter() {
		// Due messages of the main queue may become dead letters.
		if _, _, err := s.runUntilSwept(ctx, s.queueOf(sh), now, nil, script.Sweep, nil, 0); err != nil {
			return nil, "", err
		}
	}
	return s.runUntilSwept(ctx, sh, now, r, sc, keys, args...)
}

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
		raw, err := s.server.Eval(ctx, sc, theseKeys, theseArgs...)
		reply, _ := raw.([]any)
		var again bool
		if again, err = r.again(ctx, err); again {
			continue
		}
		if err != nil {
			if word, _ := server.First(reply).(string); word == "ok" { // too few replicas have confirmed the change
				return reply[1:], "", err
			}
			return nil, "", err
		}
		if len(reply) == 0 {
			return nil, "", fmt.Errorf("the script %s answered '%.100v' instead of a list that begins with a word: %w", sc.Name, raw, core.Internal)
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
