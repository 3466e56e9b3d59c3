package state

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestAgendaKeepsOrderAfterRemovals(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		dice := rand.New(rand.NewPCG(seed, 0))
		var a timerHeap[*entry]
		var wanted []timer[*entry]
		for n := range int64(200) {
			x := timer[*entry]{at: dice.Int64N(20), n: n, of: &entry{n: n}}
			a.add(x.of, x.at, n, &x.of.place)
			wanted = append(wanted, x)
			for range dice.IntN(3) {
				i := dice.IntN(len(wanted))
				a.remove(wanted[i].of.place)
				if wanted = slices.Delete(wanted, i, i+1); len(wanted) == 0 {
					break
				}
			}
		}
		slices.SortFunc(wanted, func(x, y timer[*entry]) int {
			return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.n, y.n))
		})
		for _, x := range wanted {
			if at, ok := a.first(); !ok || at != x.at || a.items[0].of != x.of {
				t.Fatalf("seed %d: first: got %d, %v, want %d and number %d", seed, at, ok, x.at, x.n)
			}
			a.remove(x.of.place)
		}
		if at, ok := a.first(); ok {
			t.Fatalf("seed %d: first of an empty heap: got %d", seed, at)
		}
	}
}

func TestAgendaIsDueAtItsInstant(t *testing.T) {
	t.Parallel()
	var a timerHeap[*entry]
	e := &entry{n: 1}
	a.add(e, 10, e.n, &e.place)
	if got := a.due(9); got != nil {
		t.Fatalf("due before: got %v, want nil", got)
	}
	if got := a.due(10); got != e {
		t.Fatalf("due: got %v, want the entry", got)
	}
}
