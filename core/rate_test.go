package core

import (
	"strings"
	"testing"
	"time"
)

func TestRatesAreReadAndWritten(t *testing.T) {
	t.Parallel()
	for text, every := range map[string]time.Duration{
		"5/s": 200 * time.Millisecond, "0.5/s": 2 * time.Second, "300/m": 200 * time.Millisecond, "10/h": 6 * time.Minute, "3/s": 333333 * time.Microsecond,
		"100000/s": 10 * time.Microsecond, "0.05/h": 20 * time.Hour, "1/s": time.Second, "1/m": time.Minute,
	} {
		r, err := ParseRate(text)
		if err != nil || r != (Rate{every, 1}) {
			t.Errorf("%s: got %v, %v, want one every %v", text, r, err, every)
		}
		if again, err := ParseRate(r.String()); err != nil || again.Every.Round(time.Millisecond) != r.Every.Round(time.Millisecond) {
			t.Errorf("%s is written %s, and read again as %v, %v", text, r, again, err)
		}
	}
	for text, want := range map[string]string{
		"": "not a rate", "5": "not a rate", "5/d": "not a rate", "x/s": "not a rate", "0/s": "ReceiveDisabled", "-1/s": "out of range",
		"NaN/s": "out of range", "200000/s": "out of range", "0.001/h": "out of range", "Inf/s": "out of range",
	} {
		if _, err := ParseRate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
