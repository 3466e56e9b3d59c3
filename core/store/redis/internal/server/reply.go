package server

import (
	"context"
	"errors"
	"strconv"

	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
)

var ErrReply = errors.New("redis: a script's answer has an unexpected form")

func First(reply []any) any {
	if len(reply) == 0 {
		return nil
	}
	return reply[0]
}

func Args[T any](items []T) []any {
	args := make([]any, len(items))
	for i := range items {
		args[i] = items[i]
	}
	return args
}

func ScoreMillis(score any) (int64, bool) {
	text, _ := score.(string)
	f, err := strconv.ParseFloat(text, 64)
	return int64(f), err == nil
}

func Flag(set bool) int {
	if set {
		return 1
	}
	return 0
}

// Number returns 0 for nil.
func (s *Server) Number(ctx context.Context, how conn.ExchangeMode, args ...any) (int64, error) {
	reply, err := s.Ask(ctx, how, args...)
	if err != nil && !conn.IsNil(err) {
		return 0, err
	}
	n, _ := reply.(int64)
	return n, nil
}
