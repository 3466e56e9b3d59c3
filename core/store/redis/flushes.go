package redis

import "sync/atomic"

// flushBounds are the upper bounds of a histogram of items per flush. A single call may have more
// than maxBatch.
var flushBounds = [...]int{1, 2, 5, 10, 20, 50, 100, maxBatch}

// Flushes is a histogram of exchanges with Redis, each shared by calls of one kind, by the number
// of items: messages, publications or locks.
type Flushes struct {
	Operation string   // append, publish, settle or renew
	Bounds    []int    // upper bounds of all counts but the last
	Counts    []uint64 // flushes by bound; the last count is of larger ones
	Items     uint64   // of all flushes
}

// flushes collects a histogram.
type flushes struct {
	counts [len(flushBounds) + 1]atomic.Uint64
	items  atomic.Uint64
}

func (f *flushes) count(items int) {
	at := 0
	for at < len(flushBounds) && items > flushBounds[at] {
		at++
	}
	f.counts[at].Add(1)
	f.items.Add(uint64(items))
}

// Flushes returns, for each kind of call, how many items shared an exchange with Redis.
func (s *Store) Flushes() []Flushes {
	kinds := []struct {
		operation string
		counted   *flushes
	}{{"append", &s.flushed.appends}, {"publish", &s.flushed.publishes}, {"settle", &s.flushed.settles}, {"renew", &s.flushed.renews}}
	all := make([]Flushes, len(kinds))
	for i, k := range kinds {
		all[i] = Flushes{Operation: k.operation, Bounds: flushBounds[:], Items: k.counted.items.Load()}
		for at := range k.counted.counts {
			all[i].Counts = append(all[i].Counts, k.counted.counts[at].Load())
		}
	}
	return all
}
