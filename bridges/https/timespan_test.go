package https

import (
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func TestTimeSpans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want time.Duration
		ok   bool
	}{
		{"00:01:00", time.Minute, true},
		{"1.02:03:04.5", 26*time.Hour + 3*time.Minute + 4500*time.Millisecond, true},
		{"10675199.02:48:05.4775807", core.Forever, true},
		{"00:00:00.0000001", 100, true},
		{"1:2", 0, false},
		{"00:60:00", 0, false},
		{"24:00:00", 0, false},
		{"-00:01:00", 0, false},
		{"1.2.00:00:00", 0, false},
		{"00:00:1.x", 0, false},
		{"", 0, false},
	} {
		if got, err := parseTimeSpan(c.in); (err == nil) != c.ok || got != c.want {
			t.Errorf("%q: got %v, %v, want %v, ok %v", c.in, got, err, c.want, c.ok)
		}
	}
}

func FuzzTimeSpan(f *testing.F) {
	f.Add("1.02:03:04.5")
	f.Add("10675199.02:48:05.4775807")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := parseTimeSpan(s); err == nil && d < 0 {
			t.Fatalf("%q: got %v, want no negative duration", s, d)
		}
	})
}
