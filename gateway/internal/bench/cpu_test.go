package bench

import (
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	const tail = " S 1 2 3 0 -1 4194560 1 2 3 4 150 25 7 8 20 0 5 0 100 1000 10\n"
	for _, stat := range []string{"12 (redis-server)" + tail, "12 (a) b) c)" + tail} {
		if got, err := parseStat(stat); err != nil || got != 1750*time.Millisecond {
			t.Errorf("%q: got %v %v, want 1.75s", stat, got, err)
		}
	}
	for _, stat := range []string{"", "12 (x) S 1", "12 redis", "12 (x) S 1 2 3 4 5 6 7 8 9 10 x y z"} {
		if got, err := parseStat(stat); err == nil {
			t.Errorf("%q: got %v, want an error", stat, got)
		}
	}
}
