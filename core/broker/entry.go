package broker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/audit"
	"github.com/crosstown-mq/crosstown/core/broker/internal/delivery"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pipeline"
	"github.com/crosstown-mq/crosstown/core/broker/internal/topics"
)

const (
	// maxAge limits how long a cached entity is used if the store's watch misses a change.
	maxAge          = 5 * time.Second
	unavailableTime = time.Second
)

// entry is a cached entity. An entity that is deleted and created again gets a new entry.
type entry struct {
	b   *Broker
	key string

	current    atomic.Pointer[entity.View]
	readAt     atomic.Int64
	dirty      atomic.Bool
	refreshing atomic.Bool

	used        atomic.Int64 // last use at this gateway, in Unix milliseconds of the store's clock; 0: none
	recorded    atomic.Int64
	recording   atomic.Bool   // a use is being recorded at once, or that has failed: see Use
	nextKeyless atomic.Uint32 // the next partition, round robin, for messages without a key
	// unavailableUntil[i] is until when, in Unix ns, messages without a key avoid partition i.
	unavailableUntil []atomic.Int64
	topic            *topics.Cache // nil unless the entity is a topic
	filters          filterCounts
	pipeline         *pipeline.Stages
	traffic          entity.Counters
	seen             atomic.Int64 // the sum of traffic at the last call of Grown
	seenAccepted     atomic.Int64 // accepted messages at the last call of Grown
	retry            atomic.Pointer[Retry]
	audit            *audit.Writer

	receivers *delivery.Entity
	listed    sessionMarks

	mu      sync.Mutex
	ended   error // once set, no sender may be added
	senders map[*sender]struct{}
}

func newEntry(b *Broker, ent core.Entity, now time.Time) *entry {
	e := &entry{b: b, key: core.FoldName(ent.Name), unavailableUntil: make([]atomic.Int64, ent.Partitions), senders: map[*sender]struct{}{}}
	if ent.Kind == core.Topic {
		e.topic = topics.NewCache(b.ns)
	}
	e.pipeline = pipeline.New(&ent, b.options.Pipelines, b.evaluator.Plugins.Park, b.find, b.log)
	if b.ns.Bounds(&ent).Max > 0 {
		e.audit = b.audit
	}
	e.receivers = delivery.New(b.delivery, e, &e.traffic, e.audit)
	e.configure(b.selected.Load(), ent.Name)
	e.current.Store(b.ns.View(ent))
	e.readAt.Store(now.UnixNano())
	return e
}

func (e *entry) configure(s *Selected, name string) {
	e.retry.Store(entity.First(s.Retries, name))
	e.receivers.SetRate(entity.First(s.RateLimits, name))
	e.receivers.SetBreaker(entity.First(s.CircuitBreakers, name))
	if e.pipeline != nil {
		e.pipeline.SetSchema(entity.First(s.Schemas, name))
	}
}

// Select replaces Options.Selected. Delays that have begun stay as they are.
func (b *Broker) Select(s Selected) {
	b.selected.Store(&s)
	for _, e := range b.known() { // also entries that were added just before the store above, with the old settings
		e.configure(b.selected.Load(), e.View().Name)
	}
	b.scheduler.want(s.Schedules)
}

func (e *entry) changed() {
	e.dirty.Store(true)
	if e.topic != nil {
		e.topic.MarkStale()
	}
}

func (e *entry) fresh(now time.Time) bool {
	return !e.dirty.Load() && now.UnixNano()-e.readAt.Load() < int64(maxAge)
}

func (e *entry) View() *entity.View { return e.current.Load() }

// If the entity was deleted, Refresh closes its senders and receivers.
func (e *entry) Refresh(ctx context.Context) { _, _ = e.b.refresh(ctx, e) }

func (e *entry) Suspect() {
	e.dirty.Store(true)
	e.b.dirty.Set()
}

// Use notes a use, which is recorded within touchInterval. If the last use is so long ago that
// another gateway could delete the entity as idle before then, Use has it recorded at once.
func (e *entry) Use() {
	now := e.b.store.Now()
	if used := now.UnixMilli(); e.used.Load() < used {
		e.used.Store(used)
	}
	v := e.View()
	idle := v.Settings.AutoDeleteOnIdle
	if idle == core.Forever {
		return
	}
	at := idleFrom(&v.Entity)
	if recorded := time.UnixMilli(e.recorded.Load()).Add(idle); recorded.After(at) {
		at = recorded
	}
	if at.Sub(now) < 2*touchInterval && e.recording.CompareAndSwap(false, true) {
		e.b.goOpen(func() { e.b.touchEntries(e.b.base, []*entry{e}) })
	}
}

// update ignores an older revision. It closes senders and receivers that the status forbids.
func (e *entry) update(ent core.Entity, now time.Time) {
	e.mu.Lock()
	old := e.View()
	if ent.Revision < old.Revision { // a late answer to an older call
		e.mu.Unlock()
		return
	}
	e.readAt.Store(now.UnixNano())
	if ent.Revision > old.Revision {
		e.current.Store(e.b.ns.View(ent))
		e.receivers.ResetBreaker()
	}
	var senders []*sender
	if !ent.Settings.Status.CanSend() {
		senders = e.takeSenders()
	}
	e.mu.Unlock()
	e.closeSenders(senders, entity.Disabled(ent.Name))
	e.receivers.Update()
}

func (e *entry) end(err error) {
	e.mu.Lock()
	if e.ended != nil {
		e.mu.Unlock()
		return
	}
	e.ended = err
	senders := e.takeSenders()
	e.mu.Unlock()
	e.closeSenders(senders, err)
	e.receivers.End(err)
}

// e.mu is held.
func (e *entry) takeSenders() []*sender {
	senders := slices.Collect(maps.Keys(e.senders))
	clear(e.senders)
	return senders
}

func (e *entry) closeSenders(senders []*sender, err error) {
	var calls []func(error)
	for _, s := range senders {
		if s.fail(err) && s.closed != nil {
			calls = append(calls, s.closed)
		}
	}
	all := func() {
		for _, call := range calls {
			call(err)
		}
	}
	// The callbacks do not run here, because the caller may be a bridge that holds locks.
	if len(calls) > 0 && !e.b.goOpen(all) {
		all() // the broker is stopping
	}
}

func (e *entry) inUse() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.senders) > 0 || e.receivers.InUse()
}

// nextPartition returns the next partition, round robin, that is not in tried, for messages without
// a key. It returns an unavailable one only if all are unavailable.
func (e *entry) nextPartition(now time.Time, tried uint32) uint16 {
	n := uint32(len(e.unavailableUntil))
	first := e.nextKeyless.Add(1) - 1
	fallback := -1
	for i := range n {
		p := (first + i) % n
		if tried&(1<<p) != 0 {
			continue
		}
		if e.unavailableUntil[p].Load() <= now.UnixNano() {
			return uint16(p)
		}
		if fallback < 0 {
			fallback = int(p)
		}
	}
	return uint16(max(fallback, 0))
}
