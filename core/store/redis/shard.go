package redis

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/batching"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
)

type place struct {
	core.Ref
	core.Policy
}

type handle struct {
	*Store
	place
}

func (s *Store) Partition(r core.Ref, p core.Policy) core.Partition {
	return core.Partition{Ref: r, Policy: p, Operations: &handle{s, place{r, p}}}
}

// shard is what this gateway keeps for a partition in use. It can be dropped and made again.
type shard struct {
	place
	keys        keyspace.Set
	features    script.Features
	state       []any // the first keys of each of its scripts
	expired     any   // ARGV[4] of lua/state.lua
	appends     batching.Batcher[*outgoing[stored]]
	publishes   batching.Batcher[*outgoing[publication]]
	settles     batching.Batcher[*settling]
	renews      batching.Batcher[*renewing]
	lostLocks   lostLocks
	quota       quota
	receipts    receiptKeys
	targets     sync.Map     // keys of a subscription, by core.Ref
	average     atomic.Int64 // average size of a record in bytes
	ratesDiffer atomic.Bool  // a warning was logged
	mark        string       // identifies this gateway's locks: see markOf

	users int // guarded by shards.mu
}

type shards struct {
	mu    sync.Mutex
	all   map[place]*shard
	limit int // with more shards than this, unused ones are dropped
}

const idleShards = 1024

// The caller calls done after use.
func (s *Store) shard(p place) (sh *shard, done func()) {
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	sh = s.shards.all[p]
	if sh == nil {
		s.shards.trim()
		sh = s.newShard(p, p.Sessions)
		sh.appends.Start(&s.server, &s.flushed.appends, func(ts []*batching.Call[*outgoing[stored]]) { s.flushAppends(sh, ts) })
		sh.publishes.Start(&s.server, &s.flushed.publishes, func(ts []*batching.Call[*outgoing[publication]]) { s.flushPublishes(sh, ts) })
		sh.settles.Start(&s.server, &s.flushed.settles, func(ts []*batching.Call[*settling]) { s.flushSettles(sh, ts) })
		sh.renews.Start(&s.server, &s.flushed.renews, func(ts []*batching.Call[*renewing]) { s.flushRenews(sh, ts) })
		s.shards.all[p] = sh
	}
	sh.users++
	return sh, func() {
		s.shards.mu.Lock()
		defer s.shards.mu.Unlock()
		sh.users--
	}
}

func (m *shards) known(p place) *shard {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[p]
}

func (s *Store) newShard(p place, sessions bool) *shard {
	sh := &shard{place: p, keys: s.server.Names.Keys(p.Ref), mark: markOf(s.server.ID)}
	sh.state, sh.expired = sh.keys.State, "drop"
	if p.DeadLetterExpired {
		sh.expired = "dead-letter"
	}
	if p.Subscription != "" {
		sh.features |= script.SharedBodies
		sh.state = slices.Concat(sh.state, sh.keys.Shared)
	}
	if sessions {
		sh.features |= script.Sessions
		sh.state = slices.Concat(sh.state, sh.keys.Sessions)
	}
	if sh.hasHistory() {
		sh.features |= script.History
		sh.state = append(slices.Clip(sh.state), sh.keys.History)
		sh.expired = fmt.Sprintf("%s %d %d", sh.expired, p.History.Keep.Milliseconds(), p.History.Max)
	}
	return sh
}

// trim drops unused shards. Flushes in progress are uses.
func (m *shards) trim() {
	if len(m.all) < max(m.limit, idleShards) {
		return
	}
	for p, sh := range m.all {
		if sh.users == 0 {
			delete(m.all, p)
		}
	}
	m.limit = 2 * len(m.all)
}

// queueOf returns the queue whose dead letters are in sh. The policy of dead letters does not say
// whether this queue has sessions, so the script finds out.
func (s *Store) queueOf(sh *shard) *shard {
	p := sh.place
	p.Sub -= core.DeadLetter - core.Main
	return s.newShard(p, p.Sub == core.Main)
}

// stateArgs returns ARGV[1..4] of lua/state.lua.
func (sh *shard) stateArgs(now int64) []any {
	return []any{now, uint8(sh.Sub), sh.MaxDeliveryCount, sh.expired}
}

func (sh *shard) hasHistory() bool { return sh.History.Max > 0 }

func (sh *shard) sequenceNumber(n int64) int64 { return core.SequenceNumber(sh.Index, n) }
