// Package state is the state machine of the stores in memory and in files, and the readable
// specification for every other engine: storetest compares their answers with its answers.
// Each partition has one mutex; a topic's partition shares it with that of its subscriptions. A
// call holds the mutex for one step, which begins with a sweep. So nothing waits for a timer, and a
// publication is one step whatever the number of its copies. All instants are whole milliseconds
// since the Unix epoch. Without a Journal, nothing survives the process. With one, a Sink gets
// every change of the store's contents, and after a restart a Replay repeats the changes, starting
// from a Snapshot: see package file.
package state

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Options configure a Store.
type Options struct {
	// Clock returns the time. nil means time.Now.
	Clock func() time.Time
	// Journal stores the changes. nil means that a restart loses them.
	Journal Journal
	// Lenient, after the repair of a damaged journal, skips effects on objects that do not exist.
	Lenient bool
	// Remember limits, in bytes, the message ids of duplicate detection together with the keys of
	// moves, and separately the histories. Beyond the limit, messages with new ids are refused as
	// Busy, and a history that grows drops its oldest events. 0 means no limit.
	Remember int64
}

// Store is a core.Store, or a view of one with its own time: see WithTime.
type Store struct {
	*contents
	clock   func() time.Time
	virtual bool // this is a view with its own time
}

// contents is what a store shares with its views.
type contents struct {
	catalogue
	registry
	ledger
	latest     int64    // when the last replayed call happened
	lenient    bool     // see Options.Lenient
	catalogued Position // the loaded snapshot has the catalogue's frames before this position
	doorbells  hooks[core.Ref, func(core.SessionKey)]
	removals   sync.WaitGroup // running removals of the contents of deleted namespaces
	spare      sync.Pool      // of effects
}

var _ core.Store = (*Store)(nil)

// New creates an empty Store.
func New(o Options) *Store {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	s := &Store{clock: o.Clock, contents: &contents{ledger: ledger{o.Journal}, lenient: o.Lenient}}
	s.remembered.most = o.Remember
	s.catalogue.ledger, s.registry.ledger = s.ledger, s.ledger
	return s
}

// WithTime returns a view of the store that shows f(now) as the time.
func (s *Store) WithTime(f func(now time.Time) time.Time) core.Store { return s.View(f) }

// View does the same as WithTime, and returns the view's own type.
func (s *Store) View(f func(now time.Time) time.Time) *Store {
	return &Store{contents: s.contents, clock: func() time.Time { return f(s.clock()) }, virtual: true}
}

// Now returns the time by the store's clock in whole milliseconds, UTC.
func (s *Store) Now() time.Time { return instant(s.millis()) }

func (s *Store) millis() int64 { return s.clock().UnixMilli() }

// Probe returns nil: memory is always available.
func (s *Store) Probe(context.Context) error { return nil }

// About describes the engine.
func (s *Store) About(context.Context) core.About {
	return core.About{
		Engine:   "memory",
		Detail:   "in this process",
		Warnings: []string{"A restart loses all entities and messages. To keep them, use --store file or a Redis."},
	}
}

// Close waits until the contents of deleted namespaces are removed. It does not wait for calls,
// because the contents end with the process.
func (s *Store) Close() error {
	s.removals.Wait()
	return nil
}

// Watch never hands over messages: only on a server does this save a round trip.
func (p *handle) Watch(w core.Watcher) (stop func()) {
	return p.doorbells.add(p.Ref, w.Wake)
}

// instant returns the time for a number of milliseconds, or the zero time for 0.
func instant(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}
