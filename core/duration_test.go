package core

import (
	"math"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/value"
)

// day is 24 hours: durations ignore changes of the clock.
const day = 24 * time.Hour

func TestDurationsAreReadAndNormalised(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want time.Duration
		out  string
	}{
		{"PT1M", time.Minute, "PT1M"},
		{"PT60M0S", time.Hour, "PT1H"},
		{"PT45S", 45 * time.Second, "PT45S"},
		{"P14D", 14 * day, "P14D"},
		{"P1DT12H", 36 * time.Hour, "P1DT12H"},
		{"PT0S", 0, "PT0S"},
		{"PT0.5S", 500 * time.Millisecond, "PT0.5S"},
		{"PT1.0000001S", time.Second + 100, "PT1.0000001S"},
		{"PT0.1234567891S", 123456700, "PT0.1234567S"},
		{"PT90S", 90 * time.Second, "PT1M30S"},
		{"P1Y2M3W4DT5H6M7.5S", (365+60+21+4)*day + 5*time.Hour + 6*time.Minute + 7500*time.Millisecond, "P450DT5H6M7.5S"},
		{maxTimeSpan, Forever, maxTimeSpan},
		{"P106752D", Forever, maxTimeSpan},
		{"P99999999999999999999D", Forever, maxTimeSpan},
		{"PT9223372036.854775807S", Forever, maxTimeSpan},
		{"PT9223372036.8547757S", Forever - 107, "P106751DT23H47M16.8547757S"},
	} {
		got, err := ParseDuration(c.in)
		if err != nil || got != c.want {
			t.Errorf("parse %s: got %v, %v, want %v", c.in, got, err, c.want)
		}
		if out := FormatDuration(got); out != c.out {
			t.Errorf("format %v: got %s, want %s", got, out, c.out)
		}
	}
}

// A TimeSpan of .NET may be a hundred times as long as a time.Duration.
func TestTicksAreReadAndNormalised(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want int64
		out  string
	}{
		{"PT0S", 0, "PT0S"},
		{"-PT1M30S", -90 * value.TicksPerSecond, "-PT1M30S"},
		{"P365000D", 365000 * value.TicksPerDay, "P365000D"},
		{"-P365000DT1H0.0000001S", -365000*value.TicksPerDay - value.TicksPerHour - 1, "-P365000DT1H0.0000001S"},
		{"PT0.12345678S", 1234567, "PT0.1234567S"},
		{maxTimeSpan, math.MaxInt64, maxTimeSpan},
		{"P10675199DT2H48M5.4775808S", math.MaxInt64, maxTimeSpan},
		{"-P10675199DT2H48M5.4775808S", math.MinInt64, "-P10675199DT2H48M5.4775808S"},
		{"-P99999999999999999999Y", math.MinInt64, "-P10675199DT2H48M5.4775808S"},
		{"P1Y99999999999999999999D", math.MaxInt64, maxTimeSpan},
	} {
		got, err := ParseTicks(c.in)
		if err != nil || got != c.want {
			t.Errorf("parse %s: got %d, %v, want %d", c.in, got, err, c.want)
		}
		if out := FormatTicks(got); out != c.out {
			t.Errorf("format %d: got %s, want %s", got, out, c.out)
		}
	}
	for _, in := range []string{"", "-", "--P1D", "P", "-1", "PT1.5M"} {
		if got, err := ParseTicks(in); err == nil {
			t.Errorf("parse %q: got %d, want an error", in, got)
		}
	}
}

func TestInvalidDurationIsRefused(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"", "P", "PT", "1M", "PT1", "P1", "PTM", "P1H", "PT1D", "P1DT", "PT1M1H", "PT1S1S", "PT1.5M", "PT.5S", "PT1.S",
		"PT1..5S", "-PT1M", "P-1D", "PT1,5S", "pt1m", "00:01:00", "5 minutes", "PT1MT1S", "PT1 M", "PT1X",
	} {
		if got, err := ParseDuration(in); err == nil {
			t.Errorf("parse %q: got %v, want an error", in, got)
		}
	}
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"PT1M", maxTimeSpan, "P1Y2M3W4DT5H6M7.5S", "PT0.000000001S", "P99999999999999999D", "P1DT"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			return
		}
		if d < 0 {
			t.Fatalf("%q: got %v, want no negative duration", s, d)
		}
		out := FormatDuration(d)
		if back, err := ParseDuration(out); err != nil || back != d {
			t.Fatalf("%q is %v, written %q, read again %v, %v", s, d, out, back, err)
		}
	})
}
