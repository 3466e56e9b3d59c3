package redis

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// patiencePause is how long a call waits between two tries.
const patiencePause = 25 * time.Millisecond

// patience retries commands that a server has certainly not run because it does not serve for a moment,
// and reads whose answers were lost.
type patience struct {
	wait      time.Duration // see Options
	alone     bool          // no other server could take the place of this one
	clustered bool
	absences  *absences
}

// absences are the times since which servers have not served. In a cluster there is one time for
// each hash tag, because other servers, and other slots of the same server, may still serve.
type absences struct {
	count atomic.Int64 // the length of since
	mu    sync.Mutex
	since map[string]time.Time // by tag; the tag is "" for a single server
}

// maxAbsences bounds the number of times kept, because some tags are not used again.
const maxAbsences = 1024

// of returns when what serves a command was first found not to serve.
func (a *absences) of(tag string, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	first, known := a.since[tag]
	if !known {
		if first = now; len(a.since) >= maxAbsences || a.since == nil {
			a.since = make(map[string]time.Time)
		}
		a.since[tag] = now
		a.count.Store(int64(len(a.since)))
	}
	return first
}

func (a *absences) end(tag string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.since, tag)
	a.count.Store(int64(len(a.since)))
}

// tag names the part of the store that serves a command.
func (p patience) tag(c redis.Cmder) string {
	if !p.clustered || c == nil {
		return ""
	}
	key := firstKey(c)
	if _, after, ok := strings.Cut(key, "{"); ok {
		key, _, _ = strings.Cut(after, "}")
	}
	return key
}

var _ redis.Hook = patience{}

// DialHook retries when a server refuses connections, because it may be restarting. go-redis itself
// counts failed connections and, after a few, dials only once a second.
func (p patience) DialHook(next redis.DialHook) redis.DialHook {
	if !p.alone {
		return next
	}
	return func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = p.retry(ctx, nil, func() error {
			c, err = next(ctx, network, address)
			return err
		}, func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) })
		return c, err
	}
}

func (p patience) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		return p.retry(ctx, c, func() error {
			c.SetErr(nil)
			return next(ctx, c)
		}, func(err error) bool { return passes(err) || isLost(err) && areReads(c) })
	}
}

func (p patience) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cs []redis.Cmder) error {
		first := cs[0]
		if first.Name() == "multi" && len(cs) > 1 {
			first = cs[1]
		}
		return p.retry(ctx, first, func() error {
			for _, c := range cs {
				c.SetErr(nil)
			}
			return next(ctx, cs)
		}, func(err error) bool {
			if isLost(err) && areReads(cs...) {
				return true
			}
			for _, c := range cs {
				if e := c.Err(); e != nil && !passes(e) && !redis.HasErrorPrefix(e, "EXECABORT") || e == nil && c.Name() != "multi" {
					return false
				}
			}
			return passes(err) || redis.HasErrorPrefix(err, "EXECABORT")
		})
	}
}

// retry repeats do while it fails with an error that passes, but not if the server has been away
// for longer than p.wait: calls do not wait for a server that stays away.
func (p patience) retry(ctx context.Context, c redis.Cmder, do func() error, passes func(error) bool) error {
	began := time.Now()
	err := do()
	for {
		if err == nil || !passes(err) {
			if err == nil && p.absences.count.Load() != 0 {
				p.absences.end(p.tag(c))
			}
			return err
		}
		now := time.Now()
		if now.Sub(p.absences.of(p.tag(c), now)) >= p.wait || now.Sub(began) >= p.wait {
			return err
		}
		select {
		case <-time.After(patiencePause):
		case <-ctx.Done():
			return err
		}
		again := do()
		if again != nil && ctx.Err() != nil {
			return err // the reason why it did not serve, rather than that ctx has ended
		}
		err = again
	}
}

// passes reports whether a command has not run, for a reason that passes by itself.
func passes(err error) bool {
	f := failureOf(err)
	return f != nil && f.passes && didNotRun(err) && f.cause != unreachable.cause && f.cause != tooFewConfirm.cause
}

// isLost reports whether a command may have run, and its answer was lost with the connection.
func isLost(err error) bool { return isUnreachable(err) && mayHaveRun(err) }

// areReads reports whether all commands only read.
func areReads(cs ...redis.Cmder) bool {
	for _, c := range cs {
		switch c.Name() {
		case "exists", "get", "hexists", "hget", "hgetall", "hmget", "memory", "smembers", "xlen", "xrange", "zcard", "zmscore",
			"zrange", "zrangebylex", "zscan", "zscore":
		default:
			return false
		}
	}
	return true
}
