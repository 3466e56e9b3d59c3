package state

import (
	"iter"
	"slices"
)

// timerHeap orders elements by at, then by n. It knows their indexes, so that any can be removed.
type timerHeap[T any] struct {
	items []timer[T]
}

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
	a.items = append(a.items, timer[T]{})
	a.up(len(a.items)-1, timer[T]{at, n, of, place})
}

func (a *timerHeap[T]) remove(place int) {
	last := len(a.items) - 1
	moved := a.items[last]
	a.items[last] = timer[T]{}
	a.items = a.items[:last]
	if cap(a.items) > 4*last+roomy {
		a.items = slices.Clone(a.items) // frees the memory of a peak
	}
	switch {
	case place == last:
	case place > 0 && moved.before(&a.items[(place-1)/2]):
		a.up(place, moved)
	default:
		a.down(place, moved)
	}
}

func (x *timer[T]) before(y *timer[T]) bool {
	return x.at < y.at || x.at == y.at && x.n < y.n
}

func (a *timerHeap[T]) up(i int, x timer[T]) {
	for i > 0 {
		parent := (i - 1) / 2
		if !x.before(&a.items[parent]) {
			break
		}
		a.set(i, a.items[parent])
		i = parent
	}
	a.set(i, x)
}

func (a *timerHeap[T]) down(i int, x timer[T]) {
	for {
		child := 2*i + 1
		if child >= len(a.items) {
			break
		}
		if other := child + 1; other < len(a.items) && a.items[other].before(&a.items[child]) {
			child = other
		}
		if !a.items[child].before(&x) {
			break
		}
		a.set(i, a.items[child])
		i = child
	}
	a.set(i, x)
}

func (a *timerHeap[T]) set(i int, x timer[T]) {
	a.items[i] = x
	*x.place = i
}
