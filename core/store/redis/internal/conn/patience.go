package conn

import (
	"context"
	"net"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/internal/wake"
)

const PatiencePause = 25 * time.Millisecond

// patience repeats commands that have certainly not run because the server was unavailable, and
// reads whose answers were lost.
type patience struct {
	Wait     time.Duration
	cluster  *redis.ClusterClient // nil without a cluster
	absences *lru.Cache[string, time.Time]
}

// newAbsences returns a cache of since when servers are unavailable. In a cluster, the key is the
// hash tag, because other slots may still be served; otherwise it is "". A size limit bounds it: a
// tag that is never used again stays in it.
func newAbsences() *lru.Cache[string, time.Time] {
	c, _ := lru.New[string, time.Time](1024) // the size is valid
	return c
}

// tag returns the hash tag of the command's first key, or "" if there is only one server.
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

// DialHook retries while a server refuses connections, because it may be restarting. go-redis does
// not call this hook for the nodes of a cluster, where a restarted master needs two seconds anyway.
func (p patience) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = p.retry(ctx, nil, func() error {
			c, err = next(ctx, network, address)
			return err
		}, isRefusal)
		return uncounted(c, err)
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

// failAll sets err for all commands if none has an error. If a new connection cannot be set up, for
// example because of a wrong password, go-redis returns the error only for the pipeline, and its
// commands would seem to have succeeded with zero values.
func failAll(cs []redis.Cmder, err error) error {
	if err == nil || slices.ContainsFunc(cs, func(c redis.Cmder) bool { return c.Err() != nil }) {
		return err // the server has answered some commands
	}
	for _, c := range cs {
		c.SetErr(err)
	}
	return err
}

// noteAway makes go-redis read the slot map if a node cannot be reached, because a replica may have
// replaced it. go-redis itself reads the map only every ten seconds, or when a node redirects it.
func (p patience) noteAway(ctx context.Context, err error) error {
	if p.cluster != nil && err != nil && IsUnreachable(err) {
		p.cluster.ReloadState(ctx) // runs in the background, and is rate-limited
	}
	return err
}

// retry repeats do if passes accepts its error, until the server was unavailable for p.Wait.
func (p patience) retry(ctx context.Context, c redis.Cmder, do func() error, passes func(error) bool) error {
	began := time.Now()
	err := do()
	for {
		if err == nil || !passes(err) {
			if err == nil && p.absences.Len() != 0 {
				p.absences.Remove(p.tag(c))
			}
			return err
		}
		now := time.Now()
		away, known, _ := p.absences.PeekOrAdd(p.tag(c), now)
		if known && now.Sub(away) >= p.Wait || now.Sub(began) >= p.Wait {
			return err
		}
		if !wake.After(ctx, PatiencePause) {
			return err
		}
		again := do()
		if again != nil && HasEnded(ctx) {
			return err // more useful to the caller than ctx's error
		}
		err = again
	}
}

// HasEnded also checks ctx's deadline: the connection may time out slightly before ctx ends.
func HasEnded(ctx context.Context) bool {
	at, has := ctx.Deadline()
	return ctx.Err() != nil || has && !time.Now().Before(at)
}

// passes reports whether the command has not run, for a reason that usually ends by itself.
func passes(err error) bool {
	f := CauseOf(err)
	return f != nil && f.passes && DidNotRun(err) && f.cause != unreachable.cause && f.cause != tooFewConfirm.cause
}

func IsLost(err error) bool { return IsUnreachable(err) && mayHaveRun(err) }

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
