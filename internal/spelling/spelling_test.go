package spelling

import (
	"slices"
	"strings"
	"testing"
)

func TestNearestNames(t *testing.T) {
	t.Parallel()
	known := []string{"LockDuration", "lock-duration", "Status", "DefaultMessageTimeToLive"}
	for name, want := range map[string][]string{
		"LockDurations":            {"LockDuration", "lock-duration"},
		"LOCK_DURATION":            {"LockDuration", "lock-duration"},
		"Stats":                    {"Status"},
		"defaultMessageTimeToLive": {"DefaultMessageTimeToLive"},
		"Sessions":                 {},
		"":                         {},
		strings.Repeat("x", 1e6):   {},
	} {
		if got := Nearest(name, known); !slices.Equal(got, want) {
			t.Errorf("%.20q: got %q, want %q", name, got, want)
		}
	}
}

func TestNamesAreHyphenated(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"LockDuration": "lock-duration", "To": "to", "ReplyToSessionId": "reply-to-session-id", "": ""} {
		if got := Hyphenated(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
