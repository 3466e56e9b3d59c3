package bench

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPaceKeepsTheScheduleOverAStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		elapsed := func() time.Duration { return time.Since(begin) }
		p := pace{interval: 10 * time.Millisecond}
		for i := range 10 {
			if i == 3 {
				time.Sleep(35 * time.Millisecond) // the broker stalls: 3 to 6 are late when they go out
			}
			due, ok := p.next(t.Context(), elapsed)
			if want := time.Duration(i) * 10 * time.Millisecond; !ok || due != want {
				t.Fatalf("message %d: due %v %v, want %v", i, due, ok, want)
			}
			if elapsed() < due {
				t.Fatalf("message %d went out at %v, before it was due at %v", i, elapsed(), due)
			}
		}
		if got, want := elapsed(), 90*time.Millisecond; got != want {
			t.Errorf("ten messages took %v, want %v: a stall is made up for", got, want)
		}
	})
}
