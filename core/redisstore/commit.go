package redisstore

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

// Commit implements core.Committing.
func (s *Store) Commit(context.Context, core.Partition, core.Work) ([]int64, error) {
	return nil, core.NotImplemented
}
