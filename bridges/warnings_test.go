package bridges

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWarningsAreSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w Warnings
		for _, want := range []bool{true, false, false} {
			if got := w.Due(); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		time.Sleep(warningPause)
		for _, want := range []bool{true, false} {
			if got := w.Due(); got != want {
				t.Errorf("after the pause: got %v, want %v", got, want)
			}
		}
	})
}
