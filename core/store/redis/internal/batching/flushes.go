package batching

import (
	"sort"
	"sync/atomic"
)

// flushBounds are the Bounds of histograms. A single call may have more items than MaxBatch.
var flushBounds = [...]int{1, 2, 5, 10, 20, 50, 100, MaxBatch}

// Histogram counts exchanges with Redis by their numbers of items (messages, publications or
// locks).
type Histogram struct {
	Operation string   // append, publish, settle or renew
	Bounds    []int    // upper bounds of all Counts but the last
	Counts    []uint64 // exchanges for each of Bounds, then those with more items
	Items     uint64   // the total of all exchanges
}

type Counter struct {
	counts [len(flushBounds) + 1]atomic.Uint64
	items  atomic.Uint64
}

func (f *Counter) count(items int) {
	f.counts[sort.SearchInts(flushBounds[:], items)].Add(1)
	f.items.Add(uint64(items))
}

func (f *Counter) Histogram(operation string) Histogram {
	h := Histogram{Operation: operation, Bounds: flushBounds[:], Items: f.items.Load()}
	for at := range f.counts {
		h.Counts = append(h.Counts, f.counts[at].Load())
	}
	return h
}
