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
)

// PatiencePause is how long a call waits between two tries.
const PatiencePause = 25 * time.Millisecond

// patience retries commands that a server has certainly not run because it does not serve for a moment,
// and reads whose answers were lost.
type patience struct {
	Wait     time.Duration        // see Options
	cluster  *redis.ClusterClient // nil outside of a cluster
	absences *absences
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

// of returns the time since which a tag has not been served: now, if it was served until now.
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

// DialHook retries when a server refuses connections, because it may be restarting. go-redis itself
// counts failed connections and, after a few, dials only once a second. For the nodes of a cluster it
// is not called: a master that restarts serves only after two seconds.
func (p patience) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = p.retry(ctx, nil, func() error {
			c, err = next(ctx, network, address)
			return err
		}, func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) })
		return c, err
	}
}

// ProcessHook retries a command.
func (p patience) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		return p.retry(ctx, c, func() error {
			c.SetErr(nil)
			return p.noteAway(ctx, next(ctx, c))
		}, func(err error) bool { return passes(err) || IsLost(err) && areReads(c) })
	}
}

// ProcessPipelineHook retries a pipeline as a whole.
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

// failAll sets the error of each command of a pipeline that failed as a whole. If the server refuses to set
// up a new connection, for instance because of a wrong password, go-redis returns an error for the
// pipeline, but its commands have no errors, and zero values as answers.
func failAll(cs []redis.Cmder, err error) error {
	if err == nil || slices.ContainsFunc(cs, func(c redis.Cmder) bool { return c.Err() != nil }) {
		return err // the server has answered some commands: each has its own error
	}
	for _, c := range cs {
		c.SetErr(err)
	}
	return err
}

// noteAway reads a cluster's map again when a node could not be reached, because a replica may have
// taken its place. go-redis itself does so only every ten seconds, and when a node redirects it.
func (p patience) noteAway(ctx context.Context, err error) error {
	if p.cluster != nil && err != nil && IsUnreachable(err) {
		p.cluster.ReloadState(ctx) // in the background, and rate-limited
	}
	return err
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
		if now.Sub(p.absences.of(p.tag(c), now)) >= p.Wait || now.Sub(began) >= p.Wait {
			return err
		}
		if !Pause(ctx, PatiencePause) {
			return err
		}
		again := do()
		if again != nil && hasEnded(ctx) {
			return err // the reason why it did not serve, rather than that ctx has ended
		}
		err = again
	}
}

// hasEnded reports whether ctx has ended. A connection's own timer can end a call shortly before
// that of ctx with the same deadline, so the deadline counts too.
func hasEnded(ctx context.Context) bool {
	at, has := ctx.Deadline()
	return ctx.Err() != nil || has && !time.Now().Before(at)
}

// passes reports whether a command has not run, for a reason that passes by itself.
func passes(err error) bool {
	f := CauseOf(err)
	return f != nil && f.passes && DidNotRun(err) && f.cause != unreachable.cause && f.cause != tooFewConfirm.cause
}

// IsLost reports whether a command may have run, and its answer was lost with the connection.
func IsLost(err error) bool { return IsUnreachable(err) && MayHaveRun(err) }

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
