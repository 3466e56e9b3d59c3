package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// noLog drops what go-redis would print to standard error behind the
// gateway's back. Each failure also comes as an error, and is handled there.
type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(noLog{}) }
