package redis

import (
	"sync"
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/batching"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
)

const (
	maxLock       = 1000     // messages that one script call locks
	maxInline     = 8        // messages whose records the script returns, to save a round trip
	maxInlineBody = 16 << 10 // largest average record that the script returns: Lua is slow with large strings
	maxRead       = 200      // entries read by one XRANGE
	maxReadBytes  = 4 << 20  // approximate bytes read by one XRANGE
	leastBlock    = 16       // locks in a block (see lua/settle_plain.lua): a smaller block costs more than it saves
	muchGarbage   = 32 << 20 // if more bytes than this were read but not delivered, the garbage collector runs at once
)

// shard is what this gateway keeps for a partition in use. It can be dropped and made again.
type shard struct {
	place
	keys      keyspace.Set
	features  script.Features
	state     []any // the first keys of each of its scripts
	expired   any   // ARGV[4] of lua/state.lua
	appends   batching.Batcher[*outgoing[stored]]
	publishes batching.Batcher[*outgoing[publication]]
	settles   batching.Batcher[*settling]
	renews    batching.Batcher[*renewing]
	quota     quota
	receipts  struct {
		mu   sync.Mutex
		free []string // keys
	}
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

func (m *shards) known(p place) *shard {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[p]
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

// stateArgs returns ARGV[1..4] of lua/state.lua.
func (sh *shard) stateArgs(now int64) []any {
	return []any{now, uint8(sh.Sub), sh.MaxDeliveryCount, sh.expired}
}

func (sh *shard) hasHistory() bool { return sh.History.Max > 0 }

func (sh *shard) sequenceNumber(n int64) int64 { return core.SequenceNumber(sh.Index, n) }

func (sh *shard) page() int {
	return int(max(1, min(maxRead, maxReadBytes/max(1, sh.average.Load()))))
}

// weigh adds a record to the average size, which is 0 before the first record.
func (sh *shard) weigh(size int64) {
	if average := sh.average.Load(); average > 0 {
		size = (7*average + size + 7) / 8
	}
	sh.average.Store(size)
}

// affordable estimates how many messages fit into bytes. It returns 1 if no size is known.
func (sh *shard) affordable(bytes int64) int {
	average := sh.average.Load()
	if average == 0 {
		return 1
	}
	return int(max(1, min(maxLock, bytes/average)))
}

func (sh *shard) inline() int {
	if sh.average.Load() > maxInlineBody {
		return 0
	}
	return maxInline
}
