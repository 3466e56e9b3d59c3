package redis

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/record"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

// From sharedBody bytes on, copies share a body: smaller ones are cheaper to store with each copy.
const sharedBody = 512

type missingBody struct {
	at          int   // index of the delivery
	publication int64 // its number in the topic's own queue
}

// attachBodies reads missing bodies. It leaves out deliveries whose bodies no longer exist: their
// locks have ended, and other receivers have completed the messages.
func (s *Store) attachBodies(ctx context.Context, sh *shard, ds []core.Delivery, missing []missingBody) ([]core.Delivery, error) {
	if len(missing) == 0 {
		return ds, nil
	}
	var commands []*redis.Cmd
	for part := range slices.Chunk(missing, sh.page()) {
		args := []any{"HMGET", s.server.Names.Bodies(sh.Ref)}
		for _, l := range part {
			args = append(args, l.publication)
		}
		commands = append(commands, redis.NewCmd(ctx, args...))
	}
	parts, err := s.server.Lists(ctx, commands...)
	if err != nil {
		return nil, err
	}
	bodies := slices.Concat(parts...)
	if len(bodies) != len(missing) {
		return nil, server.ErrReply
	}
	for i, l := range missing {
		body, ok := bodies[i].(string)
		if !ok {
			ds[l.at].Message = nil
			continue
		}
		ds[l.at].Body.Bytes = record.View(body)
		sh.weigh(int64(ds[l.at].Size()))
	}
	return slices.DeleteFunc(ds, func(d core.Delivery) bool { return d.Message == nil }), nil
}
