package redisstore

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTheClockIsTheServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)
		var c clock
		c.last.Store(&reading{server: server, local: time.Now()})
		time.Sleep(time.Minute)
		if got, want := c.now(), server.Add(time.Minute); !got.Equal(want) {
			t.Errorf("a minute later: got %v, want %v", got, want)
		}
		if got, want := c.skew(), server.Sub(time.Now().Add(-time.Minute)); got != want {
			t.Errorf("skew: got %v, want %v", got, want)
		}
	})
}

func TestASlowAnswerIsWorthLessThanAFreshReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			age, took time.Duration
			want      bool
		}{
			{10 * time.Second, time.Millisecond, true},
			{10 * time.Second, time.Second, false},
			{5 * time.Minute, time.Second, true},
		} {
			r := &reading{local: time.Now()}
			time.Sleep(c.age)
			if got := r.yieldsTo(c.took); got != c.want {
				t.Errorf("a reading of %v and an answer that took %v: got %v, want %v", c.age, c.took, got, c.want)
			}
		}
	})
}
