package core_test

import (
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func TestBackoffGrowsUpToItsLimit(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, c := range []struct {
		name    string
		backoff core.Backoff
		want    []time.Duration // after no failure before, one, two, …
	}{
		{"none", core.Backoff{}, []time.Duration{0, 0}},
		{"fixed", core.Backoff{First: s}, []time.Duration{s, s, s}},
		{"a factor below one", core.Backoff{First: s, Factor: 0.5}, []time.Duration{s, s, s}},
		{"doubled", core.Backoff{First: s, Factor: 2, Max: 5 * s}, []time.Duration{s, 2 * s, 4 * s, 5 * s, 5 * s}},
		{"in whole milliseconds", core.Backoff{First: 3 * time.Millisecond, Factor: 1.5}, []time.Duration{3e6, 4e6, 6e6, 10e6}},
		{"at most a day", core.Backoff{First: 23 * time.Hour, Factor: 10, Max: core.Forever}, []time.Duration{23 * time.Hour, core.MaxBackoff}},
		{"beyond all numbers", core.Backoff{First: s, Factor: 1e308}, []time.Duration{s, core.MaxBackoff, core.MaxBackoff}},
		{"a limit below the first", core.Backoff{First: s, Max: time.Millisecond}, []time.Duration{time.Millisecond}},
	} {
		for failures, want := range c.want {
			if got := c.backoff.After(failures); got != want {
				t.Errorf("%s, after %d failures: got %v, want %v", c.name, failures, got, want)
			}
		}
		if got, want := c.backoff.IsZero(), c.want[0] == 0; got != want {
			t.Errorf("%s: IsZero is %t, want %t", c.name, got, want)
		}
	}
}
