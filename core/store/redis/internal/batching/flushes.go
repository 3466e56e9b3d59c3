package batching

import "sync/atomic"

// flushBounds are the upper bounds of a histogram of items per flush. A single call may have more
// than maxBatch.
var flushBounds = [...]int{1, 2, 5, 10, 20, 50, 100, MaxBatch}

// Histogram is a histogram of exchanges with Redis, each shared by calls of one kind, by the number
// of items: messages, publications or locks.
type Histogram struct {
	Operation string   // append, publish, settle or renew
	Bounds    []int    // upper bounds of all counts but the last
	Counts    []uint64 // flushes by bound; the last count is that of larger flushes
	Items     uint64   // of all flushes
}

// Counter collects a histogram.
type Counter struct {
	counts [len(flushBounds) + 1]atomic.Uint64
	items  atomic.Uint64
}

func (f *Counter) count(items int) {
	at := 0
	for at < len(flushBounds) && items > flushBounds[at] {
		at++
	}
	f.counts[at].Add(1)
	f.items.Add(uint64(items))
}

// Histogram returns the collected numbers of an operation.
func (f *Counter) Histogram(operation string) Histogram {
	h := Histogram{Operation: operation, Bounds: flushBounds[:], Items: f.items.Load()}
	for at := range f.counts {
		h.Counts = append(h.Counts, f.counts[at].Load())
	}
	return h
}
