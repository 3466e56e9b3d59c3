package broker

import "sync"

// partitionGroup holds the items of one call that belong to one partition.
type partitionGroup[T any] struct {
	partition uint16
	items     []T
	at        []int // their indexes in the call; nil: all, in order
}

// onlyPartition returns the partition that all items have in common, if there is one below n.
func onlyPartition[T any](items []T, n int, of func(*T) uint16) (partition uint16, ok bool) {
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

// groupByPartition groups items by partition. Items whose partition is not below n are returned as
// indexes in strays. If all items have the same partition, nothing is copied.
func groupByPartition[T any](items []T, n int, of func(*T) uint16) (groups []partitionGroup[T], strays []int) {
	if partition, ok := onlyPartition(items, n, of); ok {
		return []partitionGroup[T]{{partition: partition, items: items}}, nil
	}
	byPartition := make([]partitionGroup[T], n)
	for i := range items {
		p := of(&items[i])
		if int(p) >= n {
			strays = append(strays, i)
			continue
		}
		byPartition[p].items = append(byPartition[p].items, items[i])
		byPartition[p].at = append(byPartition[p].at, i)
	}
	for p := range byPartition {
		if len(byPartition[p].items) > 0 {
			byPartition[p].partition = uint16(p)
			groups = append(groups, byPartition[p])
		}
	}
	return groups, strays
}

// index is the index in the call of the group's i-th item.
func (p *partitionGroup[T]) index(i int) int {
	if p.at == nil {
		return i
	}
	return p.at[i]
}

// eachGroup calls f for each group, concurrently if there are several, and waits.
func eachGroup[T any](groups []partitionGroup[T], f func(p *partitionGroup[T])) {
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
