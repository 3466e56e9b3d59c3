package state

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestLogFreesRoomOfRemovedEntries(t *testing.T) {
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
		if len(l.chunks) > l.live+1 {
			t.Fatalf("got %d chunks for %d entries", len(l.chunks), l.live)
		}
	}
	if l.live != 0 || cap(l.chunks) > 10*few {
		t.Fatalf("emptied: got %d entries, room for %d chunks", l.live, cap(l.chunks))
	}
}

// The log is a sorted list, whatever of it are rows.
func TestLogIsASortedList(t *testing.T) {
	t.Parallel()
	for seed := range uint64(15) {
		dice := rand.New(rand.NewPCG(seed, 0))
		q := &queue{home: &entityState{partition: &partition{}}}
		model := map[int64]int64{} // expiries by number
		random := func() int64 {
			numbers := slices.Sorted(maps.Keys(model))
			return numbers[min(dice.IntN(len(numbers)), dice.IntN(len(numbers)))]
		}
		for range 1500 {
			switch what := dice.IntN(6); {
			case what < 3 || len(model) == 0:
				q.last += dice.Int64N(20) / 19 * dice.Int64N(500) // now and then a gap
				e := &entry{n: q.last + 1, expires: dice.Int64N(30)}
				if model[e.n] = e.expires; dice.IntN(2) == 0 {
					q.insertRow(e)
				} else {
					q.insert(e)
				}
			case what == 3:
				q.demote(q.entry(random()))
			case what == 4:
				n := random()
				q.remove(q.entry(n))
				delete(model, n)
			default:
				e := q.log.view(random())
				if x := q.log.get(e.n); (x == nil) != e.isRow {
					t.Fatalf("seed %d: get %d: %v, and it is a row: %v", seed, e.n, x, e.isRow)
				}
			}
			from, got := dice.Int64N(q.last+2), []int64{}
			for e := range q.log.from(from) {
				if got = append(got, e.n); model[e.n] != e.expires {
					t.Fatalf("seed %d: %d expires at %d, want %d", seed, e.n, e.expires, model[e.n])
				}
			}
			want := slices.DeleteFunc(slices.Sorted(maps.Keys(model)), func(n int64) bool { return n < from })
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: from %d: got %v, want %v", seed, from, got, want)
			}
			first, next := int64(0), int64(0) // by expiry and number
			for _, n := range slices.Sorted(maps.Keys(model)) {
				if at := model[n]; at != 0 && (first == 0 || at < next) {
					first, next = n, at
				}
			}
			if got := q.next(); got != next {
				t.Fatalf("seed %d: next: got %d, want %d", seed, got, next)
			}
			if dice.IntN(5) > 0 {
				continue
			}
			if e := q.firstExpired(30); (e == nil) != (first == 0) || e != nil && e.n != first {
				t.Fatalf("seed %d: first expired: got %v, want %d", seed, e, first)
			}
			if e := q.firstExpired(next - 1); e != nil {
				t.Fatalf("seed %d: expired before %d: got %v", seed, next, e)
			}
		}
		if q.log.live != len(model) || q.log.highest() != slices.Max(append(slices.Collect(maps.Keys(model)), 0)) {
			t.Fatalf("seed %d: got %d messages up to %d, want %d", seed, q.log.live, q.log.highest(), len(model))
		}
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
