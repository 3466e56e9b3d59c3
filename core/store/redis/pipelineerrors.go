package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
)

// pipelineErrors sets the error of each command of a failed pipeline. If the server refuses to set
// up a new connection, for instance because of a wrong password, go-redis returns an error for the
// pipeline, but its commands have no errors, and zero values as answers.
type pipelineErrors struct{}

var _ redis.Hook = pipelineErrors{}

func (pipelineErrors) DialHook(next redis.DialHook) redis.DialHook { return next }

func (pipelineErrors) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (pipelineErrors) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cs []redis.Cmder) error {
		err := next(ctx, cs)
		if err == nil {
			return nil
		}
		for _, c := range cs {
			if c.Err() != nil {
				return err // the server has answered some commands: each has its own error
			}
		}
		for _, c := range cs {
			c.SetErr(err)
		}
		return err
	}
}

// failed returns the first error among a pipeline's commands, except for missing values.
func failed(cs []redis.Cmder, err error) error {
	for _, c := range cs {
		if e := c.Err(); e != nil && !isNil(e) {
			return e
		}
	}
	if isNil(err) {
		return nil
	}
	return err
}

// aborted returns the refusal of one of a transaction's commands if err says only that it aborted.
func aborted(cs []*redis.Cmd, err error) error {
	for _, c := range cs {
		if e := c.Err(); redis.HasErrorPrefix(err, "EXECABORT") && e != nil && !redis.HasErrorPrefix(e, "EXECABORT") {
			return core.CertainlyNotDone(fmt.Errorf("%w (%w)", e, err))
		}
	}
	return err
}

var errUnanswered = errors.New("the server's answer has no sequence number")
