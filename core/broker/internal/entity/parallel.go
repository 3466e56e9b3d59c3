package entity

import "sync"

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

type PartitionGroup[T any] struct {
	Partition uint16
	Items     []T
	at        []int // by item: its index in the items given to GroupByPartition; nil: the group has all items
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

// GroupByPartition groups items by partition, which the function of returns. strays are the indexes
// of items whose partition is not below n. If all items are in one partition, nothing is copied.
func GroupByPartition[T any](items []T, n int, of func(*T) uint16) (groups []PartitionGroup[T], strays []int) {
	if partition, ok := OnlyPartition(items, n, of); ok {
		return []PartitionGroup[T]{{Partition: partition, Items: items}}, nil
	}
	byPartition := make([]PartitionGroup[T], n)
	for i := range items {
		p := of(&items[i])
		if int(p) >= n {
			strays = append(strays, i)
			continue
		}
		byPartition[p].Items = append(byPartition[p].Items, items[i])
		byPartition[p].at = append(byPartition[p].at, i)
	}
	for p := range byPartition {
		if len(byPartition[p].Items) > 0 {
			byPartition[p].Partition = uint16(p)
			groups = append(groups, byPartition[p])
		}
	}
	return groups, strays
}

// Index returns the index that the group's i-th item had in the items given to GroupByPartition.
func (p *PartitionGroup[T]) Index(i int) int {
	if p.at == nil {
		return i
	}
	return p.at[i]
}

func EachGroup[T any](groups []PartitionGroup[T], f func(p *PartitionGroup[T])) {
	if len(groups) == 1 {
		f(&groups[0])
		return
	}
	var wg sync.WaitGroup
	for i := range groups {
		wg.Go(func() { f(&groups[i]) })
	}
	wg.Wait()
}
