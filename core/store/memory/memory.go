// Package memory is the store that keeps everything in memory: nothing survives the process. It is
// the reference with which storetest compares the other engines.
package memory

import (
	"time"

	"github.com/crosstown-mq/crosstown/core/store/internal/state"
)

type Store = state.Store

type Options struct {
	Clock    func() time.Time // nil means time.Now
	Remember int64            // see state.Options
}

func New(o Options) *Store { return state.New(state.Options{Clock: o.Clock, Remember: o.Remember}) }
