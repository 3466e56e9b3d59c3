package server

import (
	"errors"
	"strconv"
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
