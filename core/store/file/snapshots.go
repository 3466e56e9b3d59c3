package file

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	checkEvery   = time.Second
	compactBelow = 30
)

func (s *Store) maintain() {
	for wake.After(s.running, checkEvery) && s.log.Err() == nil {
		if !s.snapshotDue() {
			continue
		}
		if err := s.Snapshot(context.Background()); err != nil {
			s.o.Logger.Warn("cannot write a snapshot; trying again", "err", err)
			wake.After(s.running, 10*time.Second)
		}
	}
}

func (s *Store) snapshotDue() bool {
	s.snapshotting.Lock()
	defer s.snapshotting.Unlock()
	return s.journal.Appended()-s.lastAt >= max(s.o.SnapshotAfter, s.lastSize)
}

func (s *Store) Snapshot(ctx context.Context) error {
	s.snapshotting.Lock()
	defer s.snapshotting.Unlock()
	appended := s.journal.Appended()
	size, err := s.journal.Snapshot(ctx, s.Store)
	if size > 0 {
		s.lastAt, s.lastSize = appended, size
	}
	return err
}
