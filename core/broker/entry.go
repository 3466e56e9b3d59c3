package broker

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// maxAge is how old a cached entity may be when it is used, in case the store's watch has
	// missed a change.
	maxAge = 5 * time.Second
	// unavailableTime is how long keyless messages avoid a partition that was Busy.
	unavailableTime = time.Second
)

// view is an entity at one revision, with its core.Partitions. It never changes.
type view struct {
	core.Entity
	partitions [core.SubQueues][]core.Partition // by sub-queue
	maxMessage int64                            // bytes
	maxBatch   int64                            // bytes of messages that are sent together; 0: no limit
}

func (b *Broker) newView(ent core.Entity) *view {
	limits := &b.options.Limits
	v := &view{Entity: ent, maxMessage: limits.MessageBytes(&ent.Settings), maxBatch: limits.MaxBatchBytes}
	for sub := range v.partitions {
		v.partitions[sub] = make([]core.Partition, ent.Partitions)
		for i := range v.partitions[sub] {
			v.partitions[sub][i] = b.partition(&ent, uint16(i), core.SubQueue(sub))
		}
	}
	return v
}

// unlimited is the view without its quota.
func (v *view) unlimited() *view {
	u := *v
	u.partitions[core.Main] = slices.Clone(v.partitions[core.Main])
	for i := range u.partitions[core.Main] {
		u.partitions[core.Main][i].MaxBytes = 0
	}
	return &u
}

// partition is the entity's partition with the broker's policy. Messages to be forwarded are tried
// without a limit. Quota and duplicate detection apply to what is sent to the entity, not to moves
// between its sub-queues.
func (b *Broker) partition(ent *core.Entity, i uint16, sub core.SubQueue) core.Partition {
	p := ent.Partition(i, sub)
	p.History = b.bounds(ent)
	if sub != core.Main {
		p.MaxBytes, p.DuplicateWindow = 0, 0
	} else if ent.Kind != core.Subscription { // the quota of a subscription is its topic's
		p.MaxBytes = ent.Megabytes() << 20 / int64(ent.Partitions)
	}
	if sub == core.Transfer || sub == core.TransferDeadLetter || ent.Settings.ForwardTo != "" {
		p.MaxDeliveryCount = 0
	}
	return p
}

// entry is a cached entity. There is one entry per ID: a re-created entity has another.
type entry struct {
	b   *Broker
	key string // folded name

	current    atomic.Pointer[view]
	readAt     atomic.Int64 // Unix nanoseconds of this machine's clock when current was read
	dirty      atomic.Bool  // current is known to be outdated
	refreshing atomic.Bool  // a call is reading the entity

	used             atomic.Int64    // last use, in Unix milliseconds of the store's clock; 0: not used here
	recorded         atomic.Int64    // the last use that the store knows
	nextKeyless      atomic.Uint32   // round robin over partitions, for messages without a key
	unavailableUntil []atomic.Int64  // by partition: Unix nanoseconds until when it is avoided
	topic            *topicCache     // of a topic, else nil
	pipeline         *entityPipeline // nil: no pipeline
	traffic          traffic
	retry            atomic.Pointer[Retry] // nil: abandoned messages are not delayed
	history          bool                  // its messages have a history

	mu          sync.Mutex
	ended       error // set once: no sender or receiver may be added
	senders     map[*sender]struct{}
	dispatchers [core.SubQueues]*dispatcher // by sub-queue; nil while there are no receivers
	hub         *sessionHub                 // nil while there are no session receivers
	// sweeps is dispatchers[DeadLetter], for senders, which do not lock mu.
	sweeps atomic.Pointer[dispatcher]
}

func newEntry(b *Broker, ent core.Entity, now time.Time) *entry {
	e := &entry{b: b, key: core.FoldName(ent.Name), unavailableUntil: make([]atomic.Int64, ent.Partitions), senders: map[*sender]struct{}{}}
	if ent.Kind == core.Topic {
		e.topic = newTopicCache()
	}
	e.pipeline = b.newEntityPipeline(&ent)
	e.retry.Store(b.newRetry(&ent))
	e.history = b.bounds(&ent).Max > 0
	e.current.Store(b.newView(ent))
	e.readAt.Store(now.UnixNano())
	return e
}

// changed notes that the entity, or a topic's subscriptions, may have changed.
func (e *entry) changed() {
	e.dirty.Store(true)
	if e.topic != nil {
		e.topic.stale.Store(true)
	}
}

func (e *entry) fresh(now time.Time) bool {
	return !e.dirty.Load() && now.UnixNano()-e.readAt.Load() < int64(maxAge)
}

// use notes that the entity is used now.
func (e *entry) use() {
	if now := e.b.store.Now().UnixMilli(); e.used.Load() < now {
		e.used.Store(now)
	}
}

// update takes a newer revision of the same entity, and closes senders and receivers that its
// status no longer allows.
func (e *entry) update(ent core.Entity, now time.Time) {
	e.mu.Lock()
	old := e.current.Load()
	if ent.Revision < old.Revision { // a late answer to an older read
		e.mu.Unlock()
		return
	}
	e.readAt.Store(now.UnixNano())
	if ent.Revision > old.Revision {
		e.current.Store(e.b.newView(ent))
	}
	var senders []*sender
	if !ent.Settings.Status.CanSend() {
		senders = e.takeSenders()
	}
	dispatchers := [core.SubQueues]*dispatcher{}
	var hub *sessionHub
	if !ent.Settings.Status.CanReceive() {
		dispatchers, hub = e.dispatchers, e.hub
	}
	main := e.dispatchers[core.Main]
	e.mu.Unlock()
	e.close(senders, dispatchers, disabled(ent.Name))
	if main != nil {
		if err := e.current.Load().receivable(core.Main); err != nil { // it has begun to forward
			main.closeReceivers(err)
		}
	}
	if hub != nil {
		hub.closeAll(disabled(ent.Name))
	}
}

// end closes everything that is open on the entity, for good.
func (e *entry) end(err error) {
	e.mu.Lock()
	if e.ended != nil {
		e.mu.Unlock()
		return
	}
	e.ended = err
	senders, dispatchers, hub := e.takeSenders(), e.dispatchers, e.hub
	e.dispatchers, e.hub = [core.SubQueues]*dispatcher{}, nil
	e.sweeps.Store(nil)
	e.mu.Unlock()
	e.close(senders, dispatchers, err)
	for _, d := range dispatchers {
		if d != nil {
			d.stop()
		}
	}
	if hub != nil {
		hub.stop(err)
	}
}

// takeSenders empties the set of senders. e.mu is held.
func (e *entry) takeSenders() []*sender {
	senders := make([]*sender, 0, len(e.senders))
	for s := range e.senders {
		senders = append(senders, s)
	}
	clear(e.senders)
	return senders
}

func (e *entry) close(senders []*sender, dispatchers [core.SubQueues]*dispatcher, err error) {
	var calls []func(error)
	for _, s := range senders {
		if s.fail(err) && s.closed != nil {
			calls = append(calls, s.closed)
		}
	}
	// The callbacks run in a goroutine of their own: the caller may be a bridge that holds its
	// locks.
	if len(calls) > 0 {
		e.b.callback(calls, err)
	}
	for _, d := range dispatchers {
		if d != nil {
			d.closeReceivers(err)
		}
	}
}

// inUse reports whether a sender or receiver has the entity open.
func (e *entry) inUse() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.senders) > 0 || e.dispatchers != [core.SubQueues]*dispatcher{} || e.hub != nil
}

// hasReceivers reports whether the entity or a sub-queue of it has receivers.
func (e *entry) hasReceivers() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hub != nil && e.hub.busy() ||
		slices.ContainsFunc(e.dispatchers[:], func(d *dispatcher) bool { return d != nil && d.hasReceivers() })
}

func (e *entry) markUnavailable(partition uint16, now time.Time) {
	e.unavailableUntil[partition].Store(now.Add(unavailableTime).UnixNano())
}

// nextPartition picks a partition for messages without a key, round robin. It skips those in
// tried, and those marked unavailable unless all are.
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
