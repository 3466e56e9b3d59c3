package server

import (
	"context"
	"errors"
	"strconv"

	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
)

var ErrReply = errors.New("redis: a script's answer has an unexpected form")

// First returns the first element of a reply, nil if there is none.
func First(reply []any) any {
	if len(reply) == 0 {
		return nil
	}
	return reply[0]
}

// ScoreMillis reads a zset's score.
func ScoreMillis(score any) (int64, bool) {
	text, _ := score.(string)
	f, err := strconv.ParseFloat(text, 64)
	return int64(f), err == nil
}

// Flag returns a condition in the form that scripts take.
func Flag(set bool) int {
	if set {
		return 1
	}
	return 0
}

// Number runs a command whose answer is an integer; nil is 0.
func (s *Server) Number(ctx context.Context, how conn.ExchangeMode, args ...any) (int64, error) {
	reply, err := s.Ask(ctx, how, args...)
	if err != nil && !conn.IsNil(err) {
		return 0, err
	}
	n, _ := reply.(int64)
	return n, nil
}
