package state

import (
	"container/heap"
	"iter"
	"slices"
)

// timerHeap orders elements by at, then by n. It knows their indexes, so that any can be removed.
type timerHeap[T any] struct{ items timers[T] }

// roomy is unused capacity that a heap keeps, so that it need not allocate when it is filled again.
const roomy = 1024

type timer[T any] struct {
	at, n int64
	of    T
	place *int
}

func (a *timerHeap[T]) first() (at int64, ok bool) {
	if len(a.items) == 0 {
		return 0, false
	}
	return a.items[0].at, true
}

func (a *timerHeap[T]) due(now int64) (first T) {
	if at, ok := a.first(); ok && at <= now {
		first = a.items[0].of
	}
	return first
}

func (a *timerHeap[T]) ties() (all []T) {
	for at := []int{0}; len(at) > 0; {
		i := at[0]
		if at = at[1:]; i < len(a.items) && a.items[i].at == a.items[0].at {
			all, at = append(all, a.items[i].of), append(at, 2*i+1, 2*i+2)
		}
	}
	return all
}

func (a *timerHeap[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, x := range a.items {
			if !yield(x.of) {
				return
			}
		}
	}
}

func (a *timerHeap[T]) add(of T, at, n int64, place *int) {
	*place = len(a.items)
	a.items = append(a.items, timer[T]{at, n, of, place})
	heap.Fix(&a.items, *place)
}

func (a *timerHeap[T]) remove(place int) {
	last := len(a.items) - 1
	a.items.Swap(place, last)
	a.items[last] = timer[T]{}
	a.items = a.items[:last]
	if cap(a.items) > 4*last+roomy {
		a.items = slices.Clone(a.items) // frees the memory of a peak
	}
	if place < last {
		heap.Fix(&a.items, place)
	}
}

// timers implements heap.Interface as far as heap.Fix needs it.
type timers[T any] []timer[T]

func (s timers[T]) Len() int { return len(s) }

func (s timers[T]) Less(i, j int) bool {
	return s[i].at < s[j].at || s[i].at == s[j].at && s[i].n < s[j].n
}

func (s timers[T]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	*s[i].place, *s[j].place = i, j
}

func (s timers[T]) Push(any) { panic("unused") }

func (s timers[T]) Pop() any { panic("unused") }
