package linear

import (
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/crosstown-mq/crosstown/core"
)

// The model must tell wrong histories from right ones. Calls come one after the
// other here, but for those of unknown outcome.
func TestTheModelTellsWrongHistories(t *testing.T) {
	t.Parallel()
	one, two := delivered{1, "a", 0}, delivered{2, "b", 0}
	got := func(ds ...delivered) []delivered { return ds }
	two2 := appending{bodies: []string{"a", "b"}, first: 1}
	apart := appending{bodies: []string{"a", "b"}, sessions: []string{"y", "x"}, first: 1}
	for _, c := range []struct {
		name  string
		right bool
		steps []step
	}{
		{"in order", true, []step{two2, locking{1, 7, got(one), done, nil}, locking{5, 8, got(two), done, nil}, counting{0, 2}, peeking{got(one, two)}}},
		{"out of order", false, []step{two2, locking{1, 7, got(two), done, nil}}},
		{"less than there is", false, []step{two2, locking{5, 7, got(one), done, nil}}},
		{"delivered twice", false, []step{two2, locking{1, 7, got(one), done, nil}, locking{2, 8, got(one, two), done, nil}}},
		{"a number left out", false, []step{appending{bodies: []string{"a"}, first: 2}}},
		{"stored twice", false, []step{two2, peeking{got(one, two, delivered{3, "b", 0})}}},
		{"lost", false, []step{two2, peeking{got(two)}}},
		{"miscounted", false, []step{two2, locking{1, 7, got(one), done, nil}, counting{2, 0}}},
		{"completed", true, []step{two2, locking{1, 7, got(one), done, nil}, settling{1, 7, core.Complete, done}, settling{1, 7, core.Complete, refused}, peeking{got(two)}}},
		{"completed and back", false, []step{two2, locking{1, 7, got(one), done, nil}, settling{1, 7, core.Complete, done}, locking{2, 8, got(one, two), done, nil}}},
		{"completed twice", false, []step{two2, locking{1, 7, got(one), done, nil}, settling{1, 7, core.Complete, done}, settling{1, 7, core.Complete, done}}},
		{"a lock refused that holds", false, []step{two2, locking{1, 7, got(one), done, nil}, settling{1, 7, core.Complete, refused}}},
		{"a renewal refused that holds", false, []step{two2, locking{1, 7, got(one), done, nil}, renewing{1, 7, refused}}},
		{"refused after a first try", true, []step{two2, locking{1, 7, got(one), done, nil}, settling{1, 7, core.Complete, unsure}, peeking{got(two)}}},
		{"abandoned", true, []step{two2, locking{1, 7, got(one), done, nil}, settling{1, 7, core.Abandon, done}, locking{1, 8, got(delivered{1, "a", 1}), done, nil}}},
		{"released, and counted", false, []step{two2, locking{1, 7, got(one), done, nil}, settling{1, 7, core.Release, done}, locking{1, 8, got(delivered{1, "a", 1}), done, nil}}},
		{"a lost lock that is left", true, []step{two2, locking{1, 7, nil, unknown, nil}, locking{2, 8, got(two), done, nil}}},
		{"a lost lock that is undone", true, []step{two2, locking{1, 7, nil, unknown, nil}, undoing{7, 0}, locking{2, 8, got(one, two), done, nil}}},
		{"a lost lock that is undone, and counted", false, []step{two2, locking{1, 7, nil, unknown, nil}, undoing{7, 0}, locking{1, 8, got(delivered{1, "a", 1}), done, nil}}},
		{"a completion that comes late", true, []step{two2, locking{1, 7, got(one), done, nil}, settling{1, 7, core.Complete, unknown}, renewing{1, 7, done}, peeking{got(two)}}},
		{"a completion that comes and goes", false, []step{two2, locking{1, 7, got(one), done, nil}, settling{1, 7, core.Complete, unknown}, peeking{got(two)}, renewing{1, 7, done}}},
		{"cleared", true, []step{two2, locking{1, 7, got(one), done, nil}, clearing{}, settling{1, 7, core.Complete, refused}, counting{0, 0}, appending{bodies: []string{"c"}, first: 3}}},
		{"cleared, and there", false, []step{two2, clearing{}, locking{1, 7, got(one), done, nil}}},
		{"cleared, and numbered anew", false, []step{two2, clearing{}, appending{bodies: []string{"c"}, first: 1}}},

		{"the next session", true, []step{apart, accepting{true, "y", 7, done, nil}, accepting{true, "x", 8, done, nil}, accepting{next: true, answer: refused}}},
		{"not the next session", false, []step{apart, accepting{true, "x", 7, done, nil}}},
		{"a released session behind another", true, []step{
			apart,
			accepting{true, "y", 7, done, nil},
			releasing{inSession{"y", 7, done}},
			accepting{true, "x", 8, done, nil},
			accepting{true, "y", 9, done, nil},
		}},
		{"a released session before another", false, []step{apart, accepting{true, "y", 7, done, nil}, releasing{inSession{"y", 7, done}}, accepting{true, "y", 8, done, nil}}},
		{"a session with two holders", false, []step{accepting{false, "x", 7, done, nil}, accepting{false, "x", 8, done, nil}}},
		{"a free session refused", false, []step{accepting{false, "x", 0, refused, nil}}},
		{"messages of a session", true, []step{apart, accepting{false, "x", 7, done, nil}, taking{inSession{"x", 7, done}, 5, got(two), 0}, settling{2, 7, core.Complete, done}}},
		{"messages of another", false, []step{apart, accepting{false, "x", 7, done, nil}, taking{inSession{"x", 7, done}, 5, got(one), 0}}},
		{"released with its messages", true, []step{
			apart,
			accepting{false, "x", 7, done, nil},
			taking{inSession{"x", 7, done}, 5, got(two), 0},
			releasing{inSession{"x", 7, done}},
			settling{2, 7, core.Complete, refused},
			accepting{false, "x", 8, done, nil},
			taking{inSession{"x", 8, done}, 5, got(two), 0},
		}},
		{"locks of a lost answer that are undone", true, []step{
			apart,
			accepting{false, "x", 7, done, nil},
			taking{inSession{"x", 7, unknown}, 5, nil, 1},
			undoing{7, 1},
			counting{1, 1},
			counting{2, 0},
			taking{inSession{"x", 7, done}, 5, got(two), 2},
			counting{1, 1},
		}},
		{"locks of an answer that came are not undone", false, []step{
			apart,
			accepting{false, "x", 7, done, nil},
			taking{inSession{"x", 7, done}, 5, got(two), 1},
			undoing{7, 1},
			taking{inSession{"x", 7, done}, 5, got(two), 2},
		}},
		{"taken after its release", false, []step{apart, accepting{false, "x", 7, done, nil}, releasing{inSession{"x", 7, done}}, taking{inSession{"x", 7, done}, 5, got(two), 0}}},
		{"a state that is kept", true, []step{
			accepting{false, "x", 7, done, nil},
			withHistory{inSession{"x", 7, done}, "s"},
			releasing{inSession{"x", 7, done}},
			accepting{false, "x", 8, done, nil},
			recalling{inSession{"x", 8, done}, "s"},
			listing{"x"},
		}},
		{"a state that is forgotten", false, []step{accepting{false, "x", 7, done, nil}, withHistory{inSession{"x", 7, done}, "s"}, recalling{inSession{"x", 7, done}, ""}}},
		{"a session that is not listed", false, []step{apart, listing{"x"}}},
	} {
		var told []porcupine.Operation
		for i, s := range c.steps {
			o := porcupine.Operation{Input: s, Call: int64(2 * i), Return: int64(2*i + 1)}
			switch s := s.(type) {
			case locking:
				if s.answer == unknown {
					o.Return = forever
				}
			case undoing:
				o.Return = forever
			case taking:
				if s.answer == unknown {
					o.Return = forever
				}
			case settling:
				if s.answer == unknown {
					o.Return = forever
				}
			}
			told = append(told, o)
		}
		if got := porcupine.CheckOperations(sequentially, told); got != c.right {
			t.Errorf("%s: got %v, want %v", c.name, got, c.right)
		}
	}
}
