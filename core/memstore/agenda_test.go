package memstore

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestAgendaGivesEntriesInOrderWhateverWasRemoved(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		dice := rand.New(rand.NewPCG(seed, 0))
		a := agenda{slot: 1}
		var wanted []appointment
		for n := range int64(200) {
			x := appointment{at: dice.Int64N(20), e: &entry{n: n}}
			a.add(x.e, x.at)
			wanted = append(wanted, x)
			for range dice.IntN(3) {
				i := dice.IntN(len(wanted))
				a.remove(wanted[i].e)
				if wanted = slices.Delete(wanted, i, i+1); len(wanted) == 0 {
					break
				}
			}
		}
		slices.SortFunc(wanted, func(x, y appointment) int {
			return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.e.n, y.e.n))
		})
		for _, x := range wanted {
			if at, ok := a.first(); !ok || at != x.at || a.items[0].e != x.e {
				t.Fatalf("seed %d: first: got %d, %v, want %d and number %d", seed, at, ok, x.at, x.e.n)
			}
			a.remove(x.e)
		}
		if at, ok := a.first(); ok {
			t.Fatalf("seed %d: first of an empty agenda: got %d", seed, at)
		}
	}
}

func TestAgendaIsDueAtItsInstant(t *testing.T) {
	t.Parallel()
	var a agenda
	e := &entry{n: 1}
	a.add(e, 10)
	if got := a.due(9); got != nil {
		t.Fatalf("due before: got %v, want nil", got)
	}
	if got := a.due(10); got != e {
		t.Fatalf("due: got %v, want the entry", got)
	}
}
