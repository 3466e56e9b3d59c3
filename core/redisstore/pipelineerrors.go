package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
)

// pipelineErrors makes each command of a pipeline that failed say so. When the server
// refuses a new connection's set-up, such as its password, go-redis returns the
// error of the pipeline and leaves its commands as they are: without an error,
// and with zeros in the place of answers.
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
				return err // some were answered: each has its own
			}
		}
		for _, c := range cs {
			c.SetErr(err)
		}
		return err
	}
}

// failed is the first error of a pipeline's commands that is more than the
// absence of a value.
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

// aborted is why a transaction was not carried out: the refusal of one of its
// commands, if err says no more than that there was one.
func aborted(cs []redis.Cmder, err error) error {
	for _, c := range cs {
		if e := c.Err(); redis.HasErrorPrefix(err, "EXECABORT") && e != nil && !redis.HasErrorPrefix(e, "EXECABORT") {
			return core.CertainlyNotDone(fmt.Errorf("%w (%w)", e, err))
		}
	}
	return err
}

var errUnanswered = errors.New("the server's answer does not say under which number a message was stored")
