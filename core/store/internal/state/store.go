// Package state is the state machine of the stores in memory and in files, and the readable specification
// of every other engine. What it answers is right by definition; storetest compares the others with it.
//
// Each partition has one mutex, a topic's together with its subscriptions. An
// operation holds it for one step, which begins with a sweep, so nothing in here
// ever waits for a timer, and a publication is one step however many copies it
// has. All instants are whole milliseconds since the Unix epoch. Without a
// Journal nothing survives the process. With one, a Sink gets every change of
// what a store holds, and a Replay does it again after a restart, from a Snapshot
// on: that is package file.
package state

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Options configure a Store.
type Options struct {
	// Clock tells the time; nil means time.Now.
	Clock func() time.Time
	// Journal keeps what happens; nil means that a restart loses it.
	Journal Journal
	// Lenient passes over effects on what is missing, when damage of the journal was repaired.
	Lenient bool
	// Remember is the number of bytes the message ids of duplicate detection may take, and the keys of moves,
	// and as many again histories. When ids are too many, messages with new ones are refused as Busy; when
	// histories are too large, one that grows forgets its oldest events. 0: no limit.
	Remember int64
}

// Store is a core.Store in memory, or a view of one with a time of its own.
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
	latest     int64    // of the replay: when its last call has happened
	lenient    bool     // damage of the journal was repaired: what is missing is passed over
	catalogued Position // frames of the catalogue before it are in the snapshot that was loaded
	doorbells  hooks[core.Ref, func(core.SessionKey)]
	removals   sync.WaitGroup // of what deleted namespaces held
	spare      sync.Pool      // of effects
}

var _ core.Store = (*Store)(nil)

// New makes an empty Store.
func New(o Options) *Store {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	s := &Store{clock: o.Clock, contents: &contents{ledger: ledger{o.Journal}, lenient: o.Lenient}}
	s.remembered.most = o.Remember
	s.catalogue.ledger, s.registry.ledger = s.ledger, s.ledger
	return s
}

// WithTime is a view of the store whose time is f of the store's.
func (s *Store) WithTime(f func(now time.Time) time.Time) core.Store { return s.View(f) }

// View is WithTime, for engines that are made of this one.
func (s *Store) View(f func(now time.Time) time.Time) *Store {
	return &Store{contents: s.contents, clock: func() time.Time { return f(s.clock()) }, virtual: true}
}

// Now is the store's clock in whole milliseconds, UTC.
func (s *Store) Now() time.Time { return instant(s.millis()) }

func (s *Store) millis() int64 { return s.clock().UnixMilli() }

// Probe returns nil: memory is always there.
func (s *Store) Probe(context.Context) error { return nil }

// About describes the engine.
func (s *Store) About(context.Context) core.About {
	return core.About{
		Engine:   "memory",
		Detail:   "in this process",
		Warnings: []string{"A restart loses all entities and messages: --store file or a Redis keeps them."},
	}
}

// Close waits until deleted namespaces are empty: calls never wait, and the
// messages go with the process.
func (s *Store) Close() error {
	s.removals.Wait()
	return nil
}

// Watch wakes w when messages may have become available to Lock. It hands nothing
// over: a Lock is no exchange here.
func (p *handle) Watch(w core.Watcher) (stop func()) {
	return p.doorbells.add(p.Ref, w.Wake)
}

// instant is the time of a whole millisecond; 0 stands for none.
func instant(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}
