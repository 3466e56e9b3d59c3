package redis

import (
	"context"
	"strconv"

	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

func (p *handle) Purge(ctx context.Context, limit int) (removed int, err error) {
	err = p.operate(context.WithoutCancel(ctx), "purge", func(_ context.Context, sh *shard) error {
		if sh.Sessions {
			return p.refuseLock(ctx, sh)
		}
		for upto := ""; removed < limit && (ctx.Err() == nil || removed == 0); {
			bounded, cancel := p.server.Bounded(context.WithoutCancel(ctx))
			reply, err := p.transition(bounded, sh, p.millis(), script.Purge, nil, limit-removed, upto)
			cancel()
			if err != nil {
				return err
			}
			if len(reply) != 3 {
				return server.ErrReply
			}
			n, _ := reply[0].(int64)
			removed += int(n)
			if rest, _ := reply[2].(int64); rest == 0 {
				return nil
			}
			last, _ := reply[1].(int64)
			upto = strconv.FormatInt(last, 10)
		}
		return nil
	})
	return removed, err
}
