package broker

import "sync"

// pile is the items of one call that belong to one partition.
type pile[T any] struct {
	partition uint16
	items     []T
	at        []int // their places in the call; nil: all, in order
}

// lone returns the partition that all items have in common, if it is below n.
func lone[T any](items []T, n int, of func(*T) uint16) (partition uint16, ok bool) {
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

// scatter sorts items by partition. Places of items whose partition is not
// below n come back in strays. Where all have one partition nothing is copied.
func scatter[T any](items []T, n int, of func(*T) uint16) (piles []pile[T], strays []int) {
	if partition, ok := lone(items, n, of); ok {
		return []pile[T]{{partition: partition, items: items}}, nil
	}
	byPartition := make([]pile[T], n)
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
			piles = append(piles, byPartition[p])
		}
	}
	return piles, strays
}

// place is where the i-th item of the pile stood in the call.
func (p *pile[T]) place(i int) int {
	if p.at == nil {
		return i
	}
	return p.at[i]
}

// together calls f for every pile, at once if there are several, and waits.
func together[T any](piles []pile[T], f func(p *pile[T])) {
	if len(piles) == 1 {
		f(&piles[0])
		return
	}
	var wg sync.WaitGroup
	for i := range piles {
		wg.Go(func() { f(&piles[i]) })
	}
	wg.Wait()
}
