package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/crosstown-mq/crosstown/core"
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

var errClosed = core.Refuse(core.Busy, "This gateway is stopping. Try again on another gateway.")

// WrapError adds to err what could not be done. If a retry may succeed, perhaps after an operator
// has acted, it also counts and logs err, and adds Busy. After a loss of data, the error is never
// NotFound.
func (s *Server) WrapError(what string, err error) error {
	if err == nil {
		return nil
	}
	if code, ok := errors.AsType[core.Code](err); ok {
		if code == core.NotFound {
			if lost := s.Intact(); lost != nil {
				err = lost
			}
		}
		return fmt.Errorf("cannot %s: %w", what, err)
	}
	if f := conn.CauseOf(err); f != nil {
		s.Failures.Note(s.Log, f, what, err)
		return fmt.Errorf("cannot %s: %w (%w)", what, f.Refusal(), err)
	}
	return fmt.Errorf("cannot %s: %w", what, err)
}

func Ended(ctx context.Context) error {
	return fmt.Errorf("%w: %w", core.Refuse(core.Timeout, "The operation did not finish in time. It may have taken effect."), cmp.Or(context.Cause(ctx), context.DeadlineExceeded))
}
