package server

import (
	"context"
	"fmt"

	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
)

// Format is the highest format that this version reads. The store says which one to write.
const Format = FormatWithSchedules

const (
	oldest              = 3 // written by version 8fcb296; all later versions can read it
	FormatWithBlocks    = 4 // locks may be in blocks: see blocks in lua/state.lua
	FormatWithSchedules = 5 // entities may be schedules
)

// CheckFormat records a new store's format, and fails if this version cannot read the store.
func (s *Server) CheckFormat(ctx context.Context) error {
	key := s.Names.Registry().Format
	given, err := s.RDB.Get(ctx, key).Int()
	switch {
	case conn.IsNil(err):
		_, err = s.Ask(ctx, conn.Replicated, "SET", key, s.Reads)
		return err
	case err != nil:
		return fmt.Errorf("cannot read the store's format: %w", err)
	case given > s.Reads:
		return fmt.Errorf("a later version of Crosstown wrote the store in format %d, but this version reads format %d: start the later version", given, s.Reads)
	case given < oldest:
		return fmt.Errorf("the store has format %d, but this version reads only formats %d to %d: use another Redis, database or prefix", given, oldest, s.Reads)
	}
	return nil
}
