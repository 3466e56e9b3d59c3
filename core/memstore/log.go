package memstore

import (
	"cmp"
	"iter"
	"slices"
)

// log keeps entries in the order of their numbers. Removed entries leave gaps,
// which are closed when they outnumber the entries that are left.
type log struct {
	slots []slot
	live  int
}

type slot struct {
	n int64
	e *entry // nil in a gap
}

// tolerated is how many gaps more than entries a log may have.
const tolerated = 64

// append adds e, whose number is higher than all before.
func (l *log) append(e *entry) {
	l.slots = append(l.slots, slot{e.n, e})
	l.live++
}

// get returns the entry of number n, or nil.
func (l *log) get(n int64) *entry {
	if i, ok := l.search(n); ok {
		return l.slots[i].e
	}
	return nil
}

// from yields the entries from number n on. None may be appended or removed
// meanwhile.
func (l *log) from(n int64) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		i, _ := l.search(n)
		for _, s := range l.slots[i:] {
			if s.e != nil && !yield(s.e) {
				return
			}
		}
	}
}

// remove forgets the entry of number n, which must be there.
func (l *log) remove(n int64) {
	i, _ := l.search(n)
	l.slots[i].e = nil
	l.live--
	if len(l.slots)-l.live > l.live+tolerated {
		l.slots = slices.DeleteFunc(l.slots, func(s slot) bool { return s.e == nil })
		if cap(l.slots) > 4*len(l.slots)+tolerated {
			l.slots = slices.Clone(l.slots) // give back the memory of a backlog
		}
	}
}

func (l *log) search(n int64) (int, bool) {
	return slices.BinarySearchFunc(l.slots, n, func(s slot, n int64) int { return cmp.Compare(s.n, n) })
}
