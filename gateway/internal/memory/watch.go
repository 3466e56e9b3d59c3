package memory

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	// busyInterval replaces measureInterval when usage is above half of the mark of level Tight.
	measureInterval, busyInterval = 250 * time.Millisecond, 50 * time.Millisecond
	limitInterval                 = 10 * time.Second
	// collectInterval is the minimum time between two collections that measure the live memory.
	collectInterval = 500 * time.Millisecond
	// The pause after a collection is at least collectPart times as long as the collection.
	collectPart = 10
	// overrun is a percentage of Go's memory limit. Above it, memory counts as full, even if a part is
	// garbage: the runtime limits the time for collections, so clients can allocate faster than it
	// collects.
	overrun = 103
	// Go's memory limit is runtimePart percent of the gateway's limit: without enough CPU time for
	// collections, the runtime exceeds its limit. Setting it stops the program briefly, so it follows
	// only changes of more than 1/changePart.
	runtimePart, changePart = 85, 16
	// The gateway may use at least 1/leastPart of its group's limit, however much other processes use:
	// it cannot help by refusing all its clients.
	leastPart     = 8
	evictInterval = 100 * time.Millisecond
)

// marks are the percentages of the limit at which levels above Normal begin and end.
var marks = [...]struct{ begins, ends int64 }{fair.Raised: {55, 50}, fair.Tight: {65, 55}, fair.Full: {80, 75}}

type Usage struct {
	Level fair.Level `json:"level"`
	Used  int64      `json:"used"` // bytes, like Limit
	Limit int64      `json:"limit"`
}

type Options struct {
	Gauge   *fair.Gauge
	Setting int64       // 0 means no setting
	Evict   func() bool // closes the connection with the most memory; returns false if there is none
	Holders func() []slog.Attr
	Logger  *slog.Logger
}

type Watch struct {
	Options
	last       atomic.Pointer[Usage]
	system     system
	limit      int64
	limited    bool  // the runtime does not obey the limit unless the Watch tells it
	told       int64 // limit in bytes that the runtime's limit was last derived from
	group      groups
	limitAt    time.Time
	collected  time.Time // when the last collection began
	collecting atomic.Bool
	pause      atomic.Int64 // duration in nanoseconds of the collection that began at collected
	evicted    time.Time
}

type system struct {
	file    read
	heap    func() heap
	collect func(done func()) // starts a collection and returns; done is called when it has ended
	now     func() time.Time
	cap     func(bytes int64) // sets Go's memory limit
}

func NewWatch(o Options) *Watch {
	w := &Watch{Options: o, system: system{os.ReadFile, readHeap, collect, time.Now, func(n int64) { debug.SetMemoryLimit(n) }}}
	w.last.Store(&Usage{Limit: 1})
	w.measure()
	return w
}

func (w *Watch) Usage() Usage { return *w.last.Load() }

func (w *Watch) Run(ctx context.Context) error {
	for {
		interval := measureInterval
		if u := w.measure(); u.Level > fair.Normal || u.Used > u.Limit*marks[fair.Tight].begins/200 {
			interval = busyInterval
		}
		if !wake.After(ctx, interval) {
			return nil
		}
	}
}

type heap struct {
	objects int64 // bytes, including garbage that the runtime has not collected yet
	live    int64 // live bytes after the last collection
	others  int64 // bytes taken from the system, but not for the heap
	taken   int64 // bytes taken from the system, including free ones
	limit   int64 // Go's memory limit, which the runtime may exceed

	allocated int64 // bytes allocated since the program began
}

// collect runs in the background, because a collection takes seconds when processors are busy.
func collect(done func()) {
	go func() {
		defer done()
		runtime.GC()
	}()
}

func (w *Watch) measure() Usage {
	now := w.system.now()
	if now.Sub(w.limitAt) >= limitInterval || w.limitAt.IsZero() {
		w.limit, w.limited = Available(w.Setting)
		w.group, w.limitAt = groupsOf(w.system.file), now
	}
	limit := w.limit
	if w.group.limit > 0 && w.group.limit <= limit { // other processes count only under the same limit
		limit = max(limit-w.group.beside(w.system.file), limit/leastPart)
	}
	if w.limited && (limit > w.told+w.told/changePart || limit < w.told-w.told/changePart) {
		w.told = limit
		w.system.cap(limit / 100 * runtimePart)
	}
	h, was := w.system.heap(), w.last.Load().Level
	// Above the mark of level Tight, measure how much of the usage is live.
	if h.objects+h.others >= limit*marks[fair.Tight].begins/100 && now.Sub(w.collected) >= max(collectInterval, collectPart*time.Duration(w.pause.Load())) && !w.collecting.Swap(true) {
		w.collected = now
		w.system.collect(func() {
			w.pause.Store(int64(w.system.now().Sub(now)))
			w.collecting.Store(false)
		})
		h = w.system.heap()
	}
	u := Usage{Used: min(h.live, h.objects) + h.others, Limit: limit}
	if u.Level = levelOf(u.Used, u.Limit, was); h.taken/overrun >= h.limit/100 {
		u.Level = fair.Full
	}
	w.last.Store(&u)
	w.Gauge.SetRoom(u.Limit/100*marks[fair.Full].begins - u.Used)
	w.Gauge.Set(u.Level)
	if u.Level != was {
		w.tell(was, u)
	}
	if u.Level == fair.Full && now.Sub(w.evicted) >= evictInterval && w.Evict != nil && w.Evict() {
		w.evicted = now
	}
	return u
}

// levelOf returns the level that follows the level was. Each level ends at a lower usage than it
// begins.
func levelOf(used, limit int64, was fair.Level) (l fair.Level) {
	for of := fair.Raised; of <= fair.Full; of++ {
		mark := marks[of].begins
		if was >= of {
			mark = marks[of].ends
		}
		if used*100 >= limit*mark {
			l = of
		}
	}
	return l
}

func (w *Watch) tell(was fair.Level, u Usage) {
	about := []any{"level", u.Level.String(), "used", u.Used, "limit", u.Limit}
	if w.Holders != nil {
		for _, a := range w.Holders() {
			about = append(about, a)
		}
	}
	switch {
	case u.Level >= fair.Tight && u.Level > was:
		w.Logger.Warn("memory is almost full: the gateway refuses messages as busy until memory is free", about...)
	case was >= fair.Tight && u.Level < fair.Tight:
		w.Logger.Info("memory is free again", about...)
	default:
		w.Logger.Debug("memory", about...)
	}
}

func readHeap() heap {
	n := readMetrics(
		"/memory/classes/heap/objects:bytes", "/gc/heap/live:bytes", "/memory/classes/total:bytes",
		"/memory/classes/heap/released:bytes", "/memory/classes/heap/free:bytes", "/memory/classes/heap/unused:bytes",
		"/gc/heap/allocs:bytes",
	)
	at := func(i int) int64 { return int64(n[i]) }
	return heap{objects: at(0), live: at(1), others: at(2) - at(3) - at(4) - at(5) - at(0), taken: at(2) - at(3), limit: debug.SetMemoryLimit(-1), allocated: at(6)}
}

const (
	// leisure is how many bytes a program with little live memory may allocate between collections:
	// the runtime would collect a small heap after every 4 MB. usual is GOGC for a program with much
	// live memory.
	leisure = 96 << 20
	usual   = 100
	// most is GOGC for a program with very little live memory.
	most = 400
)

// Pace sets, after each collection, how much may be allocated before the next, unless GOGC is set.
func Pace() {
	if os.Getenv("GOGC") == "" {
		pace(usual)
	}
}

// pace sets GOGC by the live memory, after each collection. was is the last value of GOGC.
func pace(was int) {
	part := partOf(readMetrics("/gc/heap/live:bytes")[0])
	if part > was+was/8 || part < was-was/8 { // setting GOGC stops the program briefly
		debug.SetGCPercent(part)
	} else {
		part = was
	}
	collected := new([64]byte)
	runtime.AddCleanup(collected, pace, part)
}

// partOf returns GOGC for live bytes: how much the program may allocate, in percent of live.
func partOf(live uint64) int {
	return int(min(max(leisure*100/max(live, 1), usual), most))
}
