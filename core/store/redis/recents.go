package redis

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/crosstown-mq/crosstown/core/store/redis/internal/record"
)

// mostRecent suffices for four senders of messages of 64 KiB, each with 100 unacknowledged ones.
const mostRecent = 32 << 20

// recents are records that this gateway has stored for its receivers, so that it need not read
// them. An entry of a stream never changes, so a record is valid as long as its server keeps its
// data. A server that has lost entries may reuse their numbers, but it has also closed its
// connections, so each new connection empties the recents. In a cluster, a replica with an open
// connection may become the master, so there the recents stay empty.
type recents struct {
	limit  int // bytes
	opened atomic.Uint64

	mu      sync.Mutex
	records map[recent]string // nil: recents are not used
	order   []recent          // oldest first; may have records that were removed
	bytes   int
}

type recent struct {
	shard *shard
	n     int64
}

func (r *recents) reset(used bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records, r.order, r.bytes = nil, nil, 0
	if used {
		r.records = make(map[recent]string)
	}
}

func (r *recents) connected() {
	r.opened.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.records)
	r.order, r.bytes = nil, 0
}

// add keeps records. opened is the value of r.opened before the messages were stored.
func (r *recents) add(sh *shard, opened uint64, numbers []int64, messages []stored) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.records == nil || opened != r.opened.Load() {
		return
	}
	for i, n := range numbers {
		kept := asString(messages[i].record)
		if len(kept) > r.limit/8 {
			continue
		}
		for r.bytes+len(kept) > r.limit && len(r.order) > 0 {
			r.drop(r.order[0])
			r.order = r.order[1:]
		}
		key := recent{sh, n}
		r.records[key] = kept
		r.order = append(r.order, key)
		r.bytes += len(kept)
	}
	if len(r.order) > 2*len(r.records)+1000 {
		r.order = slices.DeleteFunc(r.order, func(key recent) bool { return r.records[key] == "" })
	}
}

// take returns entries that were kept for claims. others are the claims without one.
func (r *recents) take(sh *shard, claims []claim) (entries []record.Entry, others []claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.records) == 0 {
		return nil, claims
	}
	for _, c := range claims {
		key := recent{sh, c.n}
		if kept, ok := r.records[key]; ok {
			entries = append(entries, record.Entry{N: c.n, Record: kept})
			r.drop(key)
		} else {
			others = append(others, c)
		}
	}
	return entries, others
}

// The bytes must not change any more.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func (r *recents) drop(key recent) {
	r.bytes -= len(r.records[key])
	delete(r.records, key)
}

type claim struct {
	n int64
	record.SideData
}
