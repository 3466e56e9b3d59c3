package doorbell

import (
	"slices"
	"testing"
)

func TestQuietPartitionsArePolledRarely(t *testing.T) {
	t.Parallel()
	var b Bells
	b.Init(nil)
	for channel, commands := range map[string]int{"queue": 1, "letters": 2, "rung": 1} {
		b.watchers[channel] = &watched{channel: channel, commands: make([][]any, commands)}
	}
	b.PollAll()
	want := func(when string, channels ...string) {
		t.Helper()
		var got []string
		for _, w := range b.due() {
			got = append(got, w.channel)
			b.pollAfter(w.channel, quiet)
		}
		if slices.Sort(got); !slices.Equal(got, channels) {
			t.Errorf("%s: polled %v, want %v", when, got, channels)
		}
	}
	want("at first", "letters", "queue", "rung")
	want("when all are quiet", "letters")
	b.wakeWatchers("rung", "")
	b.wakeWatchers("rung", "")
	want("after two rings", "letters", "rung")
	b.wakeWatchers("rung", "")
	b.pollAfter("rung", quiet) // by an answer from before the ring
	want("after a ring during a poll", "letters", "rung")
	b.pollAfter("gone", 1)
	for range quiet - 4 {
		want("then", "letters")
	}
	want("later", "letters", "queue")
	want("after the rings", "letters")
	want("after the poll", "letters")
	want("later still", "letters", "rung")
}
