package redis

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

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
