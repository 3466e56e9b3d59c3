package redis

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// patiencePause is how long a call waits between two tries.
const patiencePause = 25 * time.Millisecond

// patience tries again what a server has certainly not run, because it does not serve for a moment.
type patience struct {
	wait  time.Duration // see Options
	alone bool          // there is no other server that could take its place
	since *atomic.Int64 // when the server was first found not to serve, Unix nanoseconds; 0: it serves
}

var _ redis.Hook = patience{}

// DialHook waits for a server that refuses connections: it starts again. go-redis counts failed connections,
// and dials once a second after a few.
func (p patience) DialHook(next redis.DialHook) redis.DialHook {
	if !p.alone {
		return next
	}
	return func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = p.retry(ctx, func() error {
			c, err = next(ctx, network, address)
			return err
		}, func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) })
		return c, err
	}
}

func (p patience) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		return p.retry(ctx, func() error {
			c.SetErr(nil)
			return next(ctx, c)
		}, passes)
	}
}

func (p patience) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cs []redis.Cmder) error {
		return p.retry(ctx, func() error {
			for _, c := range cs {
				c.SetErr(nil)
			}
			return next(ctx, cs)
		}, func(err error) bool {
			for _, c := range cs {
				if e := c.Err(); e != nil && !passes(e) && !redis.HasErrorPrefix(e, "EXECABORT") || e == nil && c.Name() != "multi" {
					return false
				}
			}
			return passes(err) || redis.HasErrorPrefix(err, "EXECABORT")
		})
	}
}

// retry calls do until its error is none that passes, or the server has not served for too long: calls do
// not wait for one that stays away.
func (p patience) retry(ctx context.Context, do func() error, passes func(error) bool) error {
	began := time.Now().UnixNano()
	err := do()
	for {
		if err == nil || !passes(err) {
			if err == nil && p.since.Load() != 0 {
				p.since.Store(0)
			}
			return err
		}
		now := time.Now().UnixNano()
		p.since.CompareAndSwap(0, now)
		if now-p.since.Load() >= int64(p.wait) || now-began >= int64(p.wait) { // other servers of a cluster may serve
			return err
		}
		select {
		case <-time.After(patiencePause):
		case <-ctx.Done():
			return err
		}
		again := do()
		if again != nil && ctx.Err() != nil {
			return err // why it did not serve, and not that the time is over
		}
		err = again
	}
}

// passes reports whether a command has not run for a cause that passes by itself.
func passes(err error) bool {
	f := failureOf(err)
	return f != nil && f.passes && didNotRun(err) && f.cause != unreachable.cause && f.cause != tooFewConfirm.cause
}
