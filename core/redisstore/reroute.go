package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// reroute has the map of a cluster read anew when a node could not be reached:
// a replica may have taken its place. By itself go-redis does so only when a
// node redirects it, and every ten seconds.
type reroute struct{ cluster *redis.ClusterClient }

var _ redis.Hook = reroute{}

func (r reroute) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r reroute) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		return r.after(ctx, next(ctx, c))
	}
}

func (r reroute) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cs []redis.Cmder) error {
		return r.after(ctx, next(ctx, cs))
	}
}

func (r reroute) after(ctx context.Context, err error) error {
	if err != nil && lostTouch(err) {
		r.cluster.ReloadState(ctx) // in the background, and not often
	}
	return err
}
