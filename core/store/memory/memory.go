// Package memory is the store that keeps everything in memory: nothing survives the process. It is
// the reference with which storetest compares the other engines.
package memory

import "github.com/crosstown-mq/crosstown/core/store/internal/state"

type (
	Store   = state.Store
	Options = state.Options
)

func New(o Options) *Store { return state.New(o) }
