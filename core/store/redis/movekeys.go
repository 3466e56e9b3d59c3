package redis

import (
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

// keyLingers is how long a partition still knows the key of a move after Forget: another gateway may
// repeat the move meanwhile, because it is late, or because its locks were ended although it lives.
const keyLingers = time.Minute

func (p *handle) Forget(ctx context.Context, keys []string) error {
	return p.operate(ctx, "forget moves", func(ctx context.Context, sh *shard) error {
		if err := p.sweep(ctx, sh); err != nil {
			return err
		}
		until := p.millis() - (core.KeyLife - p.lingers).Milliseconds()
		for part := range slices.Chunk(keys, maxLock) {
			args := []any{"ZADD", sh.keys.Moved, "XX"}
			for _, key := range part {
				args = append(args, until, key)
			}
			if _, err := p.server.Do(ctx, args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// knowsAll reports whether all keys are known, because earlier attempts have stored the group.
func (s *Store) knowsAll(ctx context.Context, sh *shard, group []stored) (bool, error) {
	args := []any{"ZMSCORE", sh.keys.Moved}
	for i := range group {
		if group[i].key == "" {
			return false, nil
		}
		args = append(args, group[i].key)
	}
	if len(group) == 0 {
		return true, nil
	}
	bounded, cancel := s.server.Bounded(ctx)
	defer cancel()
	reply, err := s.server.Ask(bounded, conn.Replicated, args...)
	if err != nil {
		return false, s.server.WrapError("look for the key of a move in "+sh.keys.Prefix, err)
	}
	since, _ := reply.([]any)
	oldest := s.millis() - core.KeyLife.Milliseconds()
	for _, at := range since {
		if millis, ok := server.ScoreMillis(at); !ok || millis <= oldest {
			return false, nil
		}
	}
	return len(since) == len(group), nil
}
