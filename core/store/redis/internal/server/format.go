package server

import (
	"context"
	"fmt"

	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
)

// Format is the format of the data that this version writes; the registry records the format of a store.
const Format = FormatWithSchedules

const (
	oldest              = 3 // version 8fcb296 wrote it, and every later version can read what that version wrote
	FormatWithBlocks    = 4 // locks may be in blocks: see blocks of lua/state.lua
	FormatWithSchedules = 5 // the catalogue may contain schedules
)

// CheckFormat marks a new store with the format, and refuses a store that has another format.
func (s *Server) CheckFormat(ctx context.Context) error {
	key := s.Names.Registry().Format
	given, err := s.RDB.Get(ctx, key).Int()
	switch {
	case conn.IsNil(err):
		_, err = s.Ask(ctx, conn.Replicated, "SET", key, s.Reads)
		return err
	case err != nil:
		return fmt.Errorf("read the store's format: %w", err)
	case given > s.Reads:
		return fmt.Errorf("a later version of Crosstown wrote the store in format %d, but this version reads format %d: start the later version", given, s.Reads)
	case given < oldest:
		return fmt.Errorf("the store has format %d, which only versions before 8fcb296 wrote: use another Redis, database or prefix; this version reads formats %d to %d", given, oldest, s.Reads)
	}
	return nil
}
