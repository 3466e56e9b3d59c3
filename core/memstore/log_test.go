package memstore

import (
	"math/rand/v2"
	"testing"
)

func TestLogClosesItsGaps(t *testing.T) {
	t.Parallel()
	const n = 100_000
	var l log
	for i := range int64(n) {
		l.append(&entry{n: i + 1})
	}
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
		number := int64(i + 1)
		if e := l.get(number); e == nil || e.n != number {
			t.Fatalf("get %d: got %v", number, e)
		}
		l.remove(number)
		if l.get(number) != nil {
			t.Fatalf("get %d: still there", number)
		}
		if gaps := len(l.slots) - l.live; gaps > l.live+tolerated {
			t.Fatalf("got %d gaps among %d entries", gaps, l.live)
		}
	}
	if l.live != 0 || cap(l.slots) > 10*tolerated {
		t.Fatalf("emptied: got %d entries, room for %d", l.live, cap(l.slots))
	}
}

func TestLogYieldsFromANumberOn(t *testing.T) {
	t.Parallel()
	var l log
	for n := range int64(10) {
		l.append(&entry{n: n + 1})
	}
	l.remove(5)
	l.remove(7)
	var got []int64
	for e := range l.from(5) {
		if got = append(got, e.n); len(got) == 3 {
			break
		}
	}
	if len(got) != 3 || got[0] != 6 || got[1] != 8 || got[2] != 9 {
		t.Fatalf("from 5: got %v, want [6 8 9]", got)
	}
}
