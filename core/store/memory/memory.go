// Package memory is the store that keeps everything in memory: nothing survives the process. It is
// the reference with which storetest compares the other engines.
package memory

import (
	"time"

	"github.com/crosstown-mq/crosstown/core/store/internal/state"
)

// Store is a core.Store in memory.
type Store = state.Store

// Options configure a Store.
type Options struct {
	Clock    func() time.Time // nil means time.Now
	Remember int64            // see state.Options
}

// New creates an empty Store.
func New(o Options) *Store { return state.New(state.Options{Clock: o.Clock, Remember: o.Remember}) }
