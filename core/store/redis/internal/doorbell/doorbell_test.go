package doorbell

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func TestQuietPartitionsArePolledRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := Bells{watchers: map[string]*watched{"queue": {}, "letters": {ref: core.Ref{Sub: core.DeadLetter}}, "rung": {}}}
		want := func(when string, channels ...string) {
			t.Helper()
			if got := slices.Sorted(maps.Keys(b.due())); !slices.Equal(got, channels) {
				t.Errorf("%s: polled %v, want %v", when, got, channels)
			}
		}
		want("at first", "letters", "queue", "rung")
		for channel := range b.due() {
			b.pollAt(channel, time.Now().Add(quietPolls))
		}
		want("when all are quiet", "letters")
		b.wakeWatchers("rung", "")
		want("after a ring", "letters", "rung")
		b.pollAt("gone", time.Now())
		time.Sleep(quietPolls)
		want("later", "letters", "queue", "rung")
	})
}
