package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
)

// pipelineErrors sets the error of each command of a failed pipeline. When the server refuses a new
// connection's set-up, such as its password, go-redis returns an error for the pipeline, but leaves
// its commands without an error, and with zero values as answers.
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
				return err // the server has answered some: each has its own error
			}
		}
		for _, c := range cs {
			c.SetErr(err)
		}
		return err
	}
}

// failed is the first error of a pipeline's commands, except for missing values.
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

// aborted is the refusal of one of a transaction's commands, if err says only that there was one.
func aborted(cs []*redis.Cmd, err error) error {
	for _, c := range cs {
		if e := c.Err(); redis.HasErrorPrefix(err, "EXECABORT") && e != nil && !redis.HasErrorPrefix(e, "EXECABORT") {
			return core.CertainlyNotDone(fmt.Errorf("%w (%w)", e, err))
		}
	}
	return err
}

var errUnanswered = errors.New("the server's answer has no sequence number")
