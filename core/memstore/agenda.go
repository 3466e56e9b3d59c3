package memstore

import "slices"

// agenda orders things by an instant or number, then by their own numbers: a
// binary heap in which every thing knows its place, so that any can be removed.
type agenda[T any] struct {
	items []appointment[T]
}

// roomy is how many places an agenda keeps that are free: one that fills and empties
// all the time is not made anew.
const roomy = 1024

type appointment[T any] struct {
	at, n int64
	of    T
	place *int // of's index in items
}

// first returns the earliest instant, false if the agenda is empty.
func (a *agenda[T]) first() (at int64, ok bool) {
	if len(a.items) == 0 {
		return 0, false
	}
	return a.items[0].at, true
}

// due returns what is first if its instant is not later than now, else zero.
func (a *agenda[T]) due(now int64) (first T) {
	if at, ok := a.first(); ok && at <= now {
		first = a.items[0].of
	}
	return first
}

// add enters a thing of number n and keeps its place up to date until it is removed.
func (a *agenda[T]) add(of T, at, n int64, place *int) {
	a.items = append(a.items, appointment[T]{})
	a.up(len(a.items)-1, appointment[T]{at, n, of, place})
}

// remove takes out what is at that place.
func (a *agenda[T]) remove(place int) {
	last := len(a.items) - 1
	moved := a.items[last]
	a.items[last] = appointment[T]{}
	a.items = a.items[:last]
	if cap(a.items) > 4*last+roomy {
		a.items = slices.Clone(a.items) // give back the memory of a crowd
	}
	switch {
	case place == last:
	case place > 0 && moved.before(&a.items[(place-1)/2]):
		a.up(place, moved)
	default:
		a.down(place, moved)
	}
}

func (x *appointment[T]) before(y *appointment[T]) bool {
	return x.at < y.at || x.at == y.at && x.n < y.n
}

// up puts x into the free place i or above it.
func (a *agenda[T]) up(i int, x appointment[T]) {
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

// down puts x into the free place i or below it.
func (a *agenda[T]) down(i int, x appointment[T]) {
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

func (a *agenda[T]) set(i int, x appointment[T]) {
	a.items[i] = x
	*x.place = i
}
