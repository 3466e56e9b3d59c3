package redis

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/record"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
)

// sharedBody is the size of a body, in bytes, from which the copies of a publication share it. For
// smaller bodies, storing them separately costs more.
const sharedBody = 512

// missingBody is a delivery whose shared body must still be read.
type missingBody struct {
	at          int   // index of the delivery
	publication int64 // number of the publication whose body it shares
}

// attachBodies reads the missing bodies. It leaves out deliveries whose bodies are gone: other
// receivers have completed these messages.
func (s *Store) attachBodies(ctx context.Context, sh *shard, ds []core.Delivery, missing []missingBody) ([]core.Delivery, error) {
	if len(missing) == 0 {
		return ds, nil
	}
	bodies, err := s.readBodies(ctx, sh, missing)
	if err != nil {
		return nil, err
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

func (s *Store) readBodies(ctx context.Context, sh *shard, missing []missingBody) ([]any, error) {
	key := s.names.Bodies(sh.Ref)
	var commands []*redis.Cmd
	for part := range slices.Chunk(missing, sh.page()) {
		args := []any{"HMGET", key}
		for _, l := range part {
			args = append(args, l.publication)
		}
		commands = append(commands, redis.NewCmd(ctx, args...))
	}
	parts, err := s.lists(ctx, commands...)
	if err != nil {
		return nil, err
	}
	bodies := slices.Concat(parts...)
	if len(bodies) != len(missing) {
		return nil, errReply
	}
	return bodies, nil
}

// releaseSharedBodies releases the bodies that the queues of a deleted subscription share.
func (s *Store) releaseSharedBodies(ctx context.Context, r core.Ref) error {
	for r.Sub = range core.SubQueues {
		keys := []any{s.names.Prefix(r) + keyspace.SharedSuffix, s.names.Bodies(r), s.names.Refs(r)}
		for left := int64(1); left > 0; {
			reply, err := s.eval(ctx, script.SharedBodiesRelease, keys, flag(r.Sub.IsDeadLetter()))
			if err != nil {
				return err
			}
			parts, _ := reply.([]any)
			if len(parts) != 2 {
				return errReply
			}
			left, _ = parts[1].(int64)
		}
	}
	return nil
}
