// Package memstore is the store that keeps everything in memory: the embedded
// default, and the readable specification of every other engine. What it
// answers is right by definition; storetest compares the others with it.
//
// Each partition has one mutex, a topic's together with its subscriptions. An
// operation holds it for one step, which begins with a sweep, so nothing in here
// ever waits for a timer, and a publication is one step however many copies it
// has. All instants are whole milliseconds since the Unix epoch. Nothing survives
// the process.
package memstore

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
}

// Store is a core.Store in memory.
type Store struct {
	catalogue
	registry
	clock     func() time.Time
	doorbells hooks[core.Ref, func(core.SessionKey)]
	removals  sync.WaitGroup // of what deleted namespaces held
}

var _ core.Store = (*Store)(nil)

// New makes an empty Store.
func New(o Options) *Store {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Store{clock: o.Clock}
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
		Warnings: []string{"A restart loses all entities and messages: configure a Redis store to keep them."},
	}
}

// Close waits until deleted namespaces are empty: calls never wait, and the
// messages go with the process.
func (s *Store) Close() error {
	s.removals.Wait()
	return nil
}

// Watch calls wake when messages may have become available to Lock.
func (s *Store) Watch(r core.Ref, wake func(core.SessionKey)) (stop func()) {
	return s.doorbells.add(r, wake)
}

// instant is the time of a whole millisecond; 0 stands for none.
func instant(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}
