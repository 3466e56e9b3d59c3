package entity

import (
	"sync"

	"github.com/crosstown-mq/crosstown/core"
)

const parallel = 16

// InParallel calls f for 0 to n-1, in up to parallel goroutines, and waits for all calls.
func InParallel(n int, f func(i int)) {
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}

// OnlyPartition returns the partition of all items. ok is false without items, if the partitions
// differ, or if the partition is not below n.
func OnlyPartition[T any](items []T, n int, of func(*T) uint16) (partition uint16, ok bool) {
	if len(items) == 0 {
		return 0, false
	}
	partition = of(&items[0])
	for i := range items {
		if of(&items[i]) != partition {
			return 0, false
		}
	}
	return partition, int(partition) < n
}

// ByPartition calls f for each of the partitions ps that has items, in parallel, and returns the
// answers in the order of all items. f returns one answer for each of its items, or none. The answer
// for an item of another partition is stray. If all items are in one partition, nothing is copied.
func ByPartition[T, A any](ps []core.Partition, items []T, of func(*T) uint16, stray A, f func(p *core.Partition, items []T) []A) []A {
	if partition, ok := OnlyPartition(items, len(ps), of); ok {
		return f(&ps[partition], items)
	}
	type group struct {
		items []T
		at    []int // by item: its index in all items
	}
	answers, groups := make([]A, len(items)), make([]group, len(ps))
	for i := range items {
		p := int(of(&items[i]))
		if p >= len(ps) {
			answers[i] = stray
			continue
		}
		groups[p].items, groups[p].at = append(groups[p].items, items[i]), append(groups[p].at, i)
	}
	var wg sync.WaitGroup
	for p, g := range groups {
		if len(g.items) > 0 {
			wg.Go(func() {
				for i, a := range f(&ps[p], g.items) {
					answers[g.at[i]] = a
				}
			})
		}
	}
	wg.Wait()
	return answers
}

// AllBelow reports whether the partitions of all items are below n.
func AllBelow[T any](items []T, n int, of func(*T) uint16) bool {
	for i := range items {
		if int(of(&items[i])) >= n {
			return false
		}
	}
	return true
}
