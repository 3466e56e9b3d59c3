package redis

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// noLog drops what go-redis would print to standard error. Each failure is also returned as an
// error, and handled there.
type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(noLog{}) }
