package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

type handle struct {
	*Store
	place
}

func (s *Store) Partition(r core.Ref, p core.Policy) core.Partition {
	return core.Partition{Ref: r, Policy: p, Operations: &handle{s, place{r, p}}}
}

// The caller calls done after use.
func (s *Store) shard(p place) (sh *shard, done func()) {
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	sh = s.shards.all[p]
	if sh == nil {
		s.shards.trim()
		sh = s.newShard(p, p.Sessions)
		s.start(s, sh)
		s.shards.all[p] = sh
	}
	sh.users++
	return sh, func() {
		s.shards.mu.Lock()
		defer s.shards.mu.Unlock()
		sh.users--
	}
}

func (s *Store) newShard(p place, sessions bool) *shard {
	sh := &shard{place: p, keys: s.server.Names.Keys(p.Ref), mark: markOf(s.server.ID)}
	sh.state, sh.expired = sh.keys.State, "drop"
	if p.DeadLetterExpired {
		sh.expired = "dead-letter"
	}
	if p.Subscription != "" {
		sh.features |= script.SharedBodies
		sh.state = slices.Concat(sh.state, sh.keys.Shared)
	}
	if sessions {
		sh.features |= script.Sessions
		sh.state = slices.Concat(sh.state, sh.keys.Sessions)
	}
	if sh.hasHistory() {
		sh.features |= script.History
		sh.state = append(slices.Clip(sh.state), sh.keys.History)
		sh.expired = fmt.Sprintf("%s %d %d", sh.expired, p.History.Keep.Milliseconds(), p.History.Max)
	}
	return sh
}

// queueOf returns the queue whose dead letters are in sh. The policy of dead letters does not say
// whether this queue has sessions, so the script finds out.
func (s *Store) queueOf(sh *shard) *shard {
	p := sh.place
	p.Sub -= core.DeadLetter - core.Main
	return s.newShard(p, p.Sub == core.Main)
}

func (p *handle) operate(ctx context.Context, what string, f func(ctx context.Context, sh *shard) error) error {
	sh, done := p.shard(p.place)
	defer done()
	sh.settles.Hurry()
	return p.server.Call(ctx, what+" in "+sh.keys.Prefix, func(ctx context.Context) error { return f(ctx, sh) })
}

func (p *handle) Take(ctx context.Context, r core.Rate, n int) (granted int, again time.Time, err error) {
	err = p.operate(ctx, "use the rate limit", func(ctx context.Context, sh *shard) error {
		reply, err := p.server.Eval(ctx, script.Rate, []any{p.server.Names.Base(p.Ref) + keyspace.RateSuffix}, p.millis(), r.Every.Microseconds(), r.Burst, n)
		if err != nil {
			return err
		}
		if len(reply) != 3 {
			return server.ErrReply
		}
		taken, _ := reply[0].(int64)
		next, _ := reply[1].(int64)
		granted, again = int(taken), core.Instant(next)
		if reply[2] == int64(1) && !sh.ratesDiffer.Swap(true) {
			p.server.Log.Warn("gateways have different rate limits for an entity, and each gateway applies its own limit: configure the same limit in all gateways", "entity", sh.Entity, "rate", r.String())
		}
		return nil
	})
	return granted, again, err
}
