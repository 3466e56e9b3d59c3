package redis

import (
	"context"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

// Forget drops the keys of moves that have ended at their source.
func (p *handle) Forget(ctx context.Context, keys []string) error {
	return p.operate(ctx, "forget moves", func(ctx context.Context, sh *shard) error {
		if err := p.sweep(ctx, sh); err != nil {
			return err
		}
		for part := range slices.Chunk(keys, maxLock) {
			args := []any{"ZREM", sh.keys.moved}
			for _, key := range part {
				args = append(args, key)
			}
			if _, err := p.do(ctx, args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// knowsAll reports whether nothing of a group would be stored, because earlier moves have stored
// all of it.
func (s *Store) knowsAll(ctx context.Context, sh *shard, group []stored) bool {
	args := []any{"ZMSCORE", sh.keys.moved}
	for i := range group {
		if group[i].key == "" {
			return false
		}
		args = append(args, group[i].key)
	}
	if len(group) == 0 {
		return true
	}
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	reply, err := s.do(bounded, args...)
	if err != nil {
		return false
	}
	since, _ := reply.([]any)
	oldest := s.millis() - core.KeyLife.Milliseconds()
	for _, at := range since {
		if millis, ok := scoreMillis(at); !ok || millis <= oldest {
			return false
		}
	}
	return len(since) == len(group)
}
