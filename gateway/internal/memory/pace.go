package memory

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// leisure is how many bytes at most a program with little living memory allocates between two
	// collections, and usual what part of the living memory, in percent, one with much. The runtime
	// would collect at every 4 MB of a small heap.
	leisure = 96 << 20
	usual   = 100
	// most is that part for a program with very little.
	most = 400
)

// Pace sets from now on, after each collection, when the next one begins. GOGC overrides it.
func Pace() {
	if os.Getenv("GOGC") == "" {
		pace(usual)
	}
}

// pace sets the part that may be allocated, which was the one given, and comes back after the next
// collection.
func pace(was int) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	part := partOf(live[0].Value.Uint64())
	if part > was+was/8 || part < was-was/8 { // setting it stops the program for a moment
		debug.SetGCPercent(part)
	} else {
		part = was
	}
	collected := new([64]byte)
	runtime.AddCleanup(collected, pace, part)
}

// partOf is what part of the living memory, in percent, may be allocated until the next collection.
func partOf(live uint64) int {
	return int(min(max(leisure*100/max(live, 1), usual), most))
}
