package memory

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	checkInterval = 5 * time.Second
	// An idle gateway allocates at most quiet bytes between two checks.
	quiet = 4 << 20
	// worthwhile is the least garbage in bytes for which a collection is worth its time.
	worthwhile = 32 << 20
	// The garbage must also exceed 1/liveShare of the live memory, because a collection scans all live
	// memory.
	liveShare = 4
)

// Collector makes the runtime collect garbage and return memory early. By itself, the runtime does
// so too late if a few messages take most of the memory, or if all clients have disconnected. The
// little garbage of an idle gateway is left to the runtime.
type Collector struct {
	released atomic.Int64 // bytes of large messages since the last collection
	runtime  runner

	// Only Run uses the fields below.
	worked    bool  // there was a busy time since the last collection
	least     int64 // lowest heap.taken since the last collection
	allocated int64 // heap.allocated at the last check
}

type runner struct {
	heap     func() heap
	collect  func()
	giveBack func() // collects garbage and returns memory to the system
}

func NewCollector() *Collector {
	return &Collector{runtime: runner{heap: readHeap, collect: runtime.GC, giveBack: debug.FreeOSMemory}}
}

// Released records n bytes of garbage. If there is much garbage, it starts a collection at once, to
// free memory for the next message.
func (c *Collector) Released(n int64) {
	n = c.released.Add(n)
	if n < worthwhile || n < c.runtime.heap().live/liveShare || !c.released.CompareAndSwap(n, 0) {
		return
	}
	c.runtime.collect()
}

func (c *Collector) Run(ctx context.Context) error {
	for wake.After(ctx, checkInterval) {
		c.look()
	}
	return nil
}

func (c *Collector) look() {
	u := c.runtime.heap()
	busy := u.allocated-c.allocated > quiet
	c.worked = c.worked || busy
	c.allocated = u.allocated
	c.least = min(c.least, u.taken)
	if busy || !c.worked || u.taken-c.least < worthwhile {
		return
	}
	c.runtime.giveBack()
	u = c.runtime.heap()
	c.worked, c.least, c.allocated = false, u.taken, u.allocated
}

func readMetrics(names ...string) []uint64 {
	samples, values := make([]metrics.Sample, len(names)), make([]uint64, len(names))
	for i, name := range names {
		samples[i].Name = name
	}
	metrics.Read(samples)
	for i := range samples {
		values[i] = samples[i].Value.Uint64()
	}
	return values
}
