package redis_test

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/core/storetest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

var (
	mu      sync.Mutex
	single  *redistest.Server
	cluster *redistest.Cluster
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if single != nil {
		single.Stop()
	}
	if cluster != nil {
		cluster.Stop()
	}
	os.Exit(code)
}

// server is the Redis that the tests of this package share.
func server(tb testing.TB) *redistest.Server {
	tb.Helper()
	mu.Lock()
	defer mu.Unlock()
	if single == nil {
		single = redistest.Shared(tb, redistest.Options{})
	}
	return single
}

// clusterURL is where the cluster listens that the tests of this package share.
func clusterURL(tb testing.TB) string {
	tb.Helper()
	mu.Lock()
	defer mu.Unlock()
	if cluster == nil {
		cluster = redistest.SharedCluster(tb)
	}
	return cluster.URL()
}

var prefixes atomic.Int64

// prefix is one that no other test uses.
func prefix() string { return fmt.Sprintf("t%d:", prefixes.Add(1)) }

// open opens a store of the test's own, and closes it when the test ends.
func open(tb testing.TB, url string, o redisstore.Options) *redisstore.Store {
	tb.Helper()
	if o.Prefix == "" {
		o.Prefix = prefix()
	}
	o = o.OrWithoutLingering() // like the other engines
	var s *redisstore.Store
	eventually.True(tb, "the store opens", func() bool { // replicas that are slow to confirm may do so later
		var err error
		s, err = redisstore.Open(tb.Context(), url, o)
		if err == nil {
			return true
		}
		if _, away := redisstore.Away(err); !away {
			tb.Fatalf("open: %v", err)
		}
		return false
	})
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return s
}

func TestStories(t *testing.T) {
	t.Parallel()
	t.Run("view", func(t *testing.T) {
		t.Parallel()
		storetest.RunView(t, func(t *testing.T, clock *storetest.Clock) core.Store {
			return open(t, server(t).URL(), redisstore.Options{Clock: clock.Now})
		})
	})
	// A cluster whose replicas are waited for has its own way to the servers. Without replicas the random plays tell of it.
	for name, url := range map[string]string{"single": server(t).URL(), "cluster": redistest.StartCluster(t, 1).URL() + "&replicas=1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T, clock *storetest.Clock) core.Store {
				o := redisstore.Options{Clock: clock.Now}
				if name == "single" {
					o = o.WithBlocksFrom(1)
				}
				return open(t, url, o)
			})
		})
	}
}

// The plays of a build are the same each time, so that a build fails only for a change. New plays, which
// may find what was wrong before, are those of -seed=0: make chaos.
var seed = flag.Uint64("seed", 1, "seed of the random plays, 0 for a new one")

// restartable is a store that can be replaced by one that starts again. check checks its data.
type restartable struct {
	*redisstore.Store
	check func() error
}

func (r *restartable) Check() error { return r.check() }

func TestRandomPlaysAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with -seed=%d", first)
	for name, url := range map[string]string{"single": server(t).URL(), "cluster": clusterURL(t)} {
		for i := range uint64(8) {
			t.Run(fmt.Sprintf("%s/%d", name, i), func(t *testing.T) {
				t.Parallel()
				clock := storetest.NewClock()
				o := redisstore.Options{Clock: clock.Now, Prefix: prefix()}.WithBlocksFrom([]int{1, 2, 3, 16}[i%4])
				check := func() error { return nil }
				if name == "single" {
					check = func() error { return checkLocks(t.Context(), server(t).Client(), o.Prefix) }
				}
				b := &restartable{open(t, url, o), check}
				restart := func() { b.Store = open(t, url, o) }
				storetest.Differential(t, first+i, 300, memory.New(memory.Options{Clock: clock.Now}), b, clock, restart)
			})
		}
	}
}

func FuzzPlaysAgreeWithTheModel(f *testing.F) {
	f.Add([]byte("a short play, and a merry one"))
	f.Fuzz(func(t *testing.T, data []byte) {
		clock := storetest.NewClock()
		b := open(t, server(t).URL(), redisstore.Options{Clock: clock.Now})
		storetest.Play(t, data, memory.New(memory.Options{Clock: clock.Now}), b, clock)
	})
}
