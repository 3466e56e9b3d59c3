package server

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
)

func TestAClusterWithoutMastersIsAnErrorWithItsReason(t *testing.T) {
	t.Parallel()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return nil, nil },
	})
	defer func() { _ = cluster.Close() }() // it has no connections
	s := &Server{Client: conn.Client{RDB: cluster, Cluster: cluster}}
	err := s.ReadClock(t.Context())
	if err == nil || strings.Contains(err.Error(), "%!") || !strings.Contains(err.Error(), "master") {
		t.Errorf("got %v, want an error that says that no master has answered", err)
	}
}

func TestTheClockIsTheServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)
		var c Clock
		c.last.Store(&reading{time.Now(), server, server.Add(2 * time.Millisecond)})
		time.Sleep(time.Minute)
		if got, want := c.now(), server.Add(time.Minute-time.Minute/drift); !got.Equal(want) {
			t.Errorf("a minute later: got %v, want %v", got, want)
		}
		if got, want := c.Skew(), server.Add(time.Millisecond).Sub(time.Now().Add(-time.Minute)); got != want {
			t.Errorf("skew: got %v, want %v", got, want)
		}
	})
}

func TestClockReadingKeepsTighterEarlierBounds(t *testing.T) {
	t.Parallel()
	local := time.Now()
	server := local.Add(time.Hour)
	read := func(after time.Duration, earliest, latest time.Duration) *reading {
		return &reading{local.Add(after), server.Add(earliest), server.Add(latest)}
	}
	const aged = 20 * time.Second / drift // by which a reading is less exact after 20 s
	for name, c := range map[string]struct {
		before, next, want *reading
		jump               time.Duration
	}{
		"the first": {nil, read(0, 0, time.Second), read(0, 0, time.Second), 0},
		"less exact": {
			read(0, 0, time.Millisecond), read(20*time.Second, 19*time.Second, 21*time.Second),
			read(20*time.Second, 20*time.Second-aged, 20*time.Second+time.Millisecond+aged),
			0,
		},
		"more exact": {
			read(0, 0, time.Second), read(20*time.Second, 20500*time.Millisecond, 20501*time.Millisecond),
			read(20*time.Second, 20500*time.Millisecond, 20501*time.Millisecond),
			0,
		},
		"each knows one bound better": {
			read(0, 0, 100*time.Millisecond), read(20*time.Second, 20050*time.Millisecond, 20150*time.Millisecond),
			read(20*time.Second, 20050*time.Millisecond, 20100*time.Millisecond+aged),
			0,
		},
		"the server's clock was set back": {
			read(0, 0, time.Millisecond), read(20*time.Second, 10*time.Second, 11*time.Second),
			read(20*time.Second, 10*time.Second, 11*time.Second),
			-9*time.Second + aged,
		},
		"the server's clock was set forward": {
			read(0, 0, time.Millisecond), read(20*time.Second, time.Minute, 2*time.Minute),
			read(20*time.Second, time.Minute, 2*time.Minute),
			40*time.Second - time.Millisecond - aged,
		},
	} {
		if got := c.next.narrowed(c.before); got != *c.want {
			t.Errorf("%s: got %v, want %v", name, got, *c.want)
		}
		if got := c.next.jump(c.before); got != c.jump {
			t.Errorf("%s: the clock jumped by %v, want %v", name, got, c.jump)
		}
	}
}
