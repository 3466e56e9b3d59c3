package redis

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// refreshOnFailure reads a cluster's map again when a node could not be reached, because a replica
// may have taken its place. go-redis itself does so only every ten seconds, and when a node
// redirects it.
type refreshOnFailure struct{ cluster *redis.ClusterClient }

var _ redis.Hook = refreshOnFailure{}

func (r refreshOnFailure) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r refreshOnFailure) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		return r.after(ctx, next(ctx, c))
	}
}

func (r refreshOnFailure) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cs []redis.Cmder) error {
		return r.after(ctx, next(ctx, cs))
	}
}

func (r refreshOnFailure) after(ctx context.Context, err error) error {
	if err != nil && isUnreachable(err) {
		r.cluster.ReloadState(ctx) // in the background, and rate-limited
	}
	return err
}
