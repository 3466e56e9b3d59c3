// Package state is the state machine of the stores in memory and in files, and the readable
// specification for every other engine: storetest compares the answers of the engines. Each
// partition has one mutex; a topic's partition and its subscriptions' partitions share one. A call
// holds the mutex for one step, which begins with a sweep. So nothing waits for a timer, and a
// publication is one step whatever the number of its copies. All times are whole milliseconds since
// the Unix epoch. Without a Journal, nothing survives the process. With one, a Sink gets every
// change of the contents, and after a restart a Replay repeats the changes, starting from a
// Snapshot (see package file).
package state

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

type Options struct {
	Clock   func() time.Time // nil means time.Now
	Journal Journal          // nil means that a restart loses the changes
	// Lenient makes a replay skip effects on missing objects, after a damaged journal was repaired.
	Lenient bool
	// Remember limits the bytes of message ids and Transit.Keys and, separately, the bytes of
	// histories. Beyond the limit, messages with new ids are refused as Busy, and a growing history
	// drops its oldest events. 0 means no limit.
	Remember int64
}

// Store is a core.Store, or a view of one with its own time (see WithTime).
type Store struct {
	*contents
	clock   func() time.Time
	virtual bool
}

type contents struct {
	catalogue
	latest     int64 // time of the last replayed call
	lenient    bool
	catalogued Position // journal position up to which the loaded snapshot contains the catalogue
	doorbells  wake.Hooks[core.Ref, func(core.SessionKey)]
	removals   sync.WaitGroup
}

var _ core.Store = (*Store)(nil)

func New(o Options) *Store {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	s := &Store{clock: o.Clock, contents: &contents{lenient: o.Lenient}}
	s.journal, s.remembered.most = o.Journal, o.Remember
	return s
}

func (s *Store) WithTime(f func(now time.Time) time.Time) core.Store { return s.View(f) }

func (s *Store) View(f func(now time.Time) time.Time) *Store {
	return &Store{contents: s.contents, clock: func() time.Time { return f(s.clock()) }, virtual: true}
}

func (s *Store) Now() time.Time { return core.Instant(s.millis()) }

func (s *Store) millis() int64 { return s.clock().UnixMilli() }

func (s *Store) Probe(context.Context) error { return nil }

func (s *Store) About(context.Context) core.About {
	return core.About{
		Engine:   "memory",
		Detail:   "in this process",
		Warnings: []string{"A restart loses all entities and messages. To keep them, use --store file or a Redis."},
	}
}

// Close waits until the contents of deleted namespaces are removed. It does not wait for other
// calls, because the contents end with the process.
func (s *Store) Close() error {
	s.removals.Wait()
	return nil
}

// This Watch never calls w.Reserve or w.HandOver, which only save round trips to a server.
func (p *handle) Watch(w core.Watcher) (stop func()) {
	return p.doorbells.Add(p.Ref, w.Wake)
}
