package redis_test

import (
	"math/rand/v2"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/core/storetest/linear"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

func TestAQueueIsLinearizableUnderFaults(t *testing.T) {
	t.Parallel()
	linear.Queue(t, failing(t))
}

func TestClearingIsLinearizable(t *testing.T) {
	t.Parallel()
	linear.Clearing(t, failing(t))
}

func TestSessionsAreLinearizableUnderFaults(t *testing.T) {
	t.Parallel()
	linear.Sessions(t, failing(t))
}

// Masters die with their disks. With a replica that has acknowledged every write, the next master has all but what
// does not wait for replicas: locks, and sessions that were accepted or released.
func TestAQueueIsLinearizableAcrossFailovers(t *testing.T) {
	t.Parallel()
	linear.Queue(t, failingOver(t))
}

func TestSessionsAreLinearizableAcrossFailovers(t *testing.T) {
	t.Parallel()
	linear.Sessions(t, failingOver(t))
}

// failingOver is three gateways' stores on a master whose replica takes its place.
func failingOver(t *testing.T) linear.Subject {
	sentinel := redistest.StartSentinel(t, 1)
	s := linear.Subject{Seed: *seed, Rounds: 1}
	var stores []*redisstore.Store
	for range 3 {
		store := open(t, sentinel.URL()+"?replicas=1", redisstore.Options{Prefix: "linear:"}.WithBlocksFrom(1))
		stores = append(stores, store)
		s.Stores = append(s.Stores, func() core.Store { return store })
	}
	s.FailOver = func(unreplicated func()) {
		lost := sentinel.LoseMasterAfter(t, unreplicated)
		sentinel.Repair(t, lost)
	}
	s.Ready = func(tb testing.TB) { awaitStores(tb, stores) }
	return s
}

// awaitStores waits until all stores answer: they try a server again only after a while.
func awaitStores(tb testing.TB, stores []*redisstore.Store) {
	for _, store := range stores {
		eventually.True(tb, "the store recovers", func() bool { return store.Probe(tb.Context()) == nil })
	}
}

// failing is three gateways' stores on a server that crashes and starts again, or only breaks all
// connections.
func failing(t *testing.T) linear.Subject {
	server := redistest.Start(t, redistest.Options{AOF: "always"})
	s := linear.Subject{Seed: *seed}
	var stores []*redisstore.Store
	for range 3 {
		store := open(t, server.URL(), redisstore.Options{Prefix: "linear:"}.WithBlocksFrom(1))
		stores = append(stores, store)
		s.Stores = append(s.Stores, func() core.Store { return store })
	}
	s.Break = func(random *rand.Rand) func() {
		if random.IntN(2) == 0 {
			server.Kill()
			return func() { server.Restart(t) }
		}
		if err := server.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			t.Errorf("client kill: %v", err)
		}
		return nil
	}
	s.Ready = func(tb testing.TB) { awaitStores(tb, stores) }
	return s
}
