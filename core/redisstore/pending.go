package redisstore

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Topic implements core.Catalogue.
func (s *Store) Topic(context.Context, string, string) (core.TopicView, error) {
	return core.TopicView{}, core.NotImplemented
}

// Forget implements core.Partitions.
func (s *Store) Forget(context.Context, core.Partition, []string) error { return core.NotImplemented }

// Publish implements core.Publishing.
func (s *Store) Publish(_ context.Context, _ core.Partition, _ int64, groups [][]core.Publication) []core.Appended {
	answers := make([]core.Appended, len(groups))
	for i := range answers {
		answers[i].Err = core.NotImplemented
	}
	return answers
}

// AcceptSession implements core.Sessions.
func (s *Store) AcceptSession(context.Context, core.Partition, string) (core.SessionLock, error) {
	return core.SessionLock{}, core.NotImplemented
}

// AcceptNextSession implements core.Sessions.
func (s *Store) AcceptNextSession(context.Context, core.Partition) (l core.SessionLock, ok bool, next time.Time, err error) {
	return core.SessionLock{}, false, time.Time{}, core.NotImplemented
}

// RenewSession implements core.Sessions.
func (s *Store) RenewSession(context.Context, core.Partition, core.SessionLock) (time.Time, error) {
	return time.Time{}, core.NotImplemented
}

// ReleaseSession implements core.Sessions.
func (s *Store) ReleaseSession(context.Context, core.Partition, core.SessionLock) error {
	return core.NotImplemented
}

// LockInSession implements core.Sessions.
func (s *Store) LockInSession(context.Context, core.Partition, core.SessionLock, int) ([]core.Delivery, time.Time, error) {
	return nil, time.Time{}, core.NotImplemented
}

// SessionState implements core.Sessions.
func (s *Store) SessionState(context.Context, core.Partition, core.SessionLock) ([]byte, error) {
	return nil, core.NotImplemented
}

// SetSessionState implements core.Sessions.
func (s *Store) SetSessionState(context.Context, core.Partition, core.SessionLock, []byte) error {
	return core.NotImplemented
}

// ListSessions implements core.Sessions.
func (s *Store) ListSessions(context.Context, core.Partition, time.Time, string, int) ([]string, error) {
	return nil, core.NotImplemented
}
