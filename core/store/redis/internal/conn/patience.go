package conn

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/internal/wake"
)

const PatiencePause = 25 * time.Millisecond

// patience repeats commands that have certainly not run because the server was unavailable, and
// reads whose answers were lost.
type patience struct {
	Wait     time.Duration        // Options.Patience
	cluster  *redis.ClusterClient // nil without a cluster
	absences *absences
}

// absences records since when servers have been unavailable: in a cluster for each hash tag,
// because other slots may still be served.
type absences struct {
	count atomic.Int64 // len(since)
	mu    sync.Mutex
	since map[string]time.Time // by hash tag; "" for a single server
}

// maxAbsences limits the recorded absences, because that of a tag that is never used again never
// ends.
const maxAbsences = 1024

// of returns since when the tag has been unavailable, or now if it was available until now.
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

// tag returns the hash tag of a command's first key, or "" if there is only one server.
func (p patience) tag(c redis.Cmder) string {
	if p.cluster == nil || c == nil {
		return ""
	}
	key := firstKey(c)
	if _, after, ok := strings.Cut(key, "{"); ok {
		key, _, _ = strings.Cut(after, "}")
	}
	return key
}

var _ redis.Hook = patience{}

// DialHook retries while a server refuses connections, because it may be restarting. Without it,
// go-redis would dial only once a second after a few failures. go-redis does not call this hook for
// the nodes of a cluster: there, a restarted master is available again only after two seconds.
func (p patience) DialHook(next redis.DialHook) redis.DialHook {
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
			return p.noteAway(ctx, next(ctx, c))
		}, func(err error) bool { return passes(err) || IsLost(err) && areReads(c) })
	}
}

// ProcessPipelineHook always retries the whole pipeline.
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
			return p.noteAway(ctx, failAll(cs, next(ctx, cs)))
		}, func(err error) bool {
			if IsLost(err) && areReads(cs...) {
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

// failAll sets the error of each command of a pipeline that failed as a whole. If a new connection
// cannot be set up, for example because of a wrong password, go-redis returns an error only for the
// pipeline, and its commands would seem to have succeeded with zero values.
func failAll(cs []redis.Cmder, err error) error {
	if err == nil || slices.ContainsFunc(cs, func(c redis.Cmder) bool { return c.Err() != nil }) {
		return err // the server has answered some commands, and each has its own error
	}
	for _, c := range cs {
		c.SetErr(err)
	}
	return err
}

// noteAway reads a cluster's slot map again if a node could not be reached, because a replica may
// have replaced it. go-redis itself reads it only every ten seconds, or when a node redirects it.
func (p patience) noteAway(ctx context.Context, err error) error {
	if p.cluster != nil && err != nil && IsUnreachable(err) {
		p.cluster.ReloadState(ctx) // runs in the background, and is rate-limited
	}
	return err
}

// retry repeats do while it fails with an error for which passes returns true. It stops when the
// server has been unavailable for p.Wait; later calls then fail at once.
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
		if now.Sub(p.absences.of(p.tag(c), now)) >= p.Wait || now.Sub(began) >= p.Wait {
			return err
		}
		if !wake.After(ctx, PatiencePause) {
			return err
		}
		again := do()
		if again != nil && hasEnded(ctx) {
			return err // more useful to the caller than ctx's error
		}
		err = again
	}
}

// hasEnded reports whether ctx has ended, or its deadline has passed: a timer of the connection
// with the same deadline may end the call slightly before ctx ends.
func hasEnded(ctx context.Context) bool {
	at, has := ctx.Deadline()
	return ctx.Err() != nil || has && !time.Now().Before(at)
}

// passes reports whether the command has not run, for a reason that usually ends by itself.
func passes(err error) bool {
	f := CauseOf(err)
	return f != nil && f.passes && DidNotRun(err) && f.cause != unreachable.cause && f.cause != tooFewConfirm.cause
}

// IsLost reports whether the connection broke after the command may have run.
func IsLost(err error) bool { return IsUnreachable(err) && MayHaveRun(err) }

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
