// Package state is the state machine of the stores in memory and in files, and the readable specification for
// every other engine. Its answers are right by definition; storetest compares the other engines with it.
//
// Each partition has one mutex; a topic and its subscriptions share one. An operation holds it for
// one step, which begins with a sweep. So nothing in here ever waits for a timer, and a publication
// is one step regardless of the number of its copies. All instants are whole milliseconds since the
// Unix epoch. Without a Journal, nothing survives the process. With one, a Sink gets every change
// of what a store holds, and after a restart a Replay repeats the changes, starting from a
// Snapshot: see package file.
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
	// Journal stores the changes. nil means that they are lost in a restart.
	Journal Journal
	// Lenient skips effects on missing objects, after a damaged journal was repaired.
	Lenient bool
	// Remember is the maximum number of bytes of the message ids of duplicate detection together
	// with the keys of moves, and also the maximum number of bytes of histories. If there are too
	// many ids, messages with new ids are refused as Busy. If histories are too large, a history
	// that grows drops its oldest events. 0 means no limit.
	Remember int64
}

// Store is a core.Store in memory, or a view of one with its own time.
type Store struct {
	*contents
	clock   func() time.Time
	virtual bool // it is a view: see WithTime
}

// contents is what a store and its views share.
type contents struct {
	catalogue
	registry
	ledger
	latest     int64    // for the replay: when its last call happened
	lenient    bool     // a damaged journal was repaired, so effects on missing things are skipped
	catalogued Position // the snapshot that was loaded contains frames of the catalogue before this position
	doorbells  hooks[core.Ref, func(core.SessionKey)]
	removals   sync.WaitGroup // of the contents of deleted namespaces
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

// WithTime returns a view of the store whose time is f of the store's time.
func (s *Store) WithTime(f func(now time.Time) time.Time) core.Store { return s.View(f) }

// View does the same as WithTime, for engines that use this one.
func (s *Store) View(f func(now time.Time) time.Time) *Store {
	return &Store{contents: s.contents, clock: func() time.Time { return f(s.clock()) }, virtual: true}
}

// Now returns the time by the store's clock in whole milliseconds, UTC.
func (s *Store) Now() time.Time { return instant(s.millis()) }

func (s *Store) millis() int64 { return s.clock().UnixMilli() }

// Probe returns nil, because memory is always available.
func (s *Store) Probe(context.Context) error { return nil }

// About describes the engine.
func (s *Store) About(context.Context) core.About {
	return core.About{
		Engine:   "memory",
		Detail:   "in this process",
		Warnings: []string{"A restart loses all entities and messages. To keep them, use --store file or a Redis."},
	}
}

// Close waits until deleted namespaces are empty. It need not wait for calls, because the messages
// end with the process.
func (s *Store) Close() error {
	s.removals.Wait()
	return nil
}

// Watch wakes w when messages may have become available to Lock. It hands over no messages, because
// a Lock costs no exchange here.
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
