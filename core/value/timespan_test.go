package value

import (
	"math"
	"testing"
)

func TestTimeSpansAsText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    string
		ticks int64
		out   string
	}{
		{"00:00", 0, "00:00:00"},
		{"00:05:00", 5 * TicksPerMinute, "00:05:00"},
		{"01:02", TicksPerHour + 2*TicksPerMinute, "01:02:00"},
		{"01:01:01", 36_610_000_000, "01:01:01"},
		{"1.02:03:04.5", TicksPerDay + 2*TicksPerHour + 3*TicksPerMinute + 45*TicksPerSecond/10, "1.02:03:04.5000000"},
		{"1.00:00:00.0000001", 864_000_000_001, "1.00:00:00.0000001"},
		{"-00:00:00.0000001", -1, "-00:00:00.0000001"},
		{"10675199.02:48:05.4775807", math.MaxInt64, "10675199.02:48:05.4775807"},
	} {
		ticks, err := ParseTimeSpan(c.in)
		if err != nil || ticks != c.ticks || FormatTimeSpan(ticks) != c.out {
			t.Errorf("%s: got %d, %v, %s, want %d, %s", c.in, ticks, err, FormatTimeSpan(ticks), c.ticks, c.out)
		}
	}
	if got, want := FormatTimeSpan(math.MinInt64), "-10675199.02:48:05.4775808"; got != want {
		t.Errorf("the least: got %s, want %s", got, want)
	}
	for _, in := range []string{
		"", "5", "24:00:00", "00:60:00", "00:00:60", "00:00:00.00000001", "00:00:1.x", "1:2:3:4", "x:00:00", "1.2.00:00:00",
		"99999999999.00:00:00", "10675199.02:48:05.4775808", "+1:00:00", "PT5M",
	} {
		if ticks, err := ParseTimeSpan(in); err == nil {
			t.Errorf("%q: got %d, want an error", in, ticks)
		}
	}
}

func FuzzTimeSpan(f *testing.F) {
	f.Add("1.02:03:04.5")
	f.Add("10675199.02:48:05.4775807")
	f.Fuzz(func(t *testing.T, s string) {
		ticks, err := ParseTimeSpan(s)
		if err != nil {
			return
		}
		text := FormatTimeSpan(ticks)
		if again, err := ParseTimeSpan(text); err != nil || again != ticks {
			t.Fatalf("%q: got %d, %v from %s, want %d", s, again, err, text, ticks)
		}
	})
}
