package memory

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// checkInterval is how often a Collector checks whether the gateway is idle.
	checkInterval = 5 * time.Second
	// quiet is the number of bytes at most a gateway allocates from one look to the next that has little to do.
	quiet = 4 << 20
	// worthwhile is the number of bytes that are worth a collection.
	worthwhile = 32 << 20
	// liveShare is what part of the living memory they must be besides, because that is what a collection costs.
	liveShare = 4
)

// Collector makes the runtime collect and return memory sooner than it would by
// itself: it collects when as much again as lives was allocated, or two minutes
// have passed, and keeps what the heap may grow to again. That is too late where
// a few messages are most of the memory, and where all clients have gone.
type Collector struct {
	released atomic.Int64 // by large messages, since the last collection
	runtime  runner

	// Run's own:
	least     uint64 // bytes taken from the system after the last time
	allocated uint64 // at the last look
}

// runner is the Go runtime.
type runner struct {
	usage    func() usage
	collect  func()
	giveBack func() // collects, too
}

// NewCollector returns a Collector. Run must be called.
func NewCollector() *Collector {
	return &Collector{runtime: runner{usage: readUsage, collect: runtime.GC, giveBack: debug.FreeOSMemory}}
}

// Released says that a large message of n bytes is garbage now. It collects what
// such messages have left where that is much: the next message is to find its
// memory free.
func (c *Collector) Released(n int64) {
	n = c.released.Add(n)
	if n < worthwhile || uint64(n) < c.runtime.usage().live/liveShare || !c.released.CompareAndSwap(n, 0) {
		return
	}
	c.runtime.collect()
}

// Run gives memory back until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	ticks := time.NewTicker(checkInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			c.look()
		case <-ctx.Done():
			return nil
		}
	}
}

// look gives memory back while there is little to do.
func (c *Collector) look() {
	u := c.runtime.usage()
	busy := u.allocated-c.allocated > quiet
	c.allocated = u.allocated
	c.least = min(c.least, u.taken)
	if busy || u.taken-c.least < worthwhile {
		return
	}
	c.runtime.giveBack()
	u = c.runtime.usage()
	c.least, c.allocated = u.taken, u.allocated
}

// usage is the memory of the program, in bytes.
type usage struct {
	taken     uint64 // from the system, and not given back
	allocated uint64 // since the program began
	live      uint64 // after the last collection
}

func readUsage() usage {
	s := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(s)
	return usage{taken: s[0].Value.Uint64() - s[1].Value.Uint64(), allocated: s[2].Value.Uint64(), live: s[3].Value.Uint64()}
}
