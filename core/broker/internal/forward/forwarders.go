// Package forward moves messages without a client's request: from entities that forward, out of
// transfer queues, and to other brokers. It also publishes scheduled messages of topics when they
// are due.
package forward

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/audit"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pause"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pipeline"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	// ScanInterval is how often the forwarders look in all entities for messages to move that no
	// gateway knows of. They also do so when a gateway has left.
	ScanInterval = 10 * time.Minute
	IdleLife     = time.Minute
	readRetry    = time.Second
	ScanRetry    = time.Minute // after a scan that could not check all entities
	// stepGrace is how long steps in flight may continue when Run ends.
	stepGrace          = 5 * time.Second
	MaxConcurrentSteps = 64
)

type Config struct {
	*entity.Namespace
	Entity func(ctx context.Context, name string) (Entity, error)
	// Read returns an entity as the store has it, not from the cache.
	Read    func(ctx context.Context, name string) (Entity, error)
	Walk    func(ctx context.Context, visit func(*core.Entity)) error
	Barrier *pause.Barrier
	Remotes map[string]core.Remote
	Wait    bool
}

type Entity interface {
	Key() string
	View() *entity.View
	Use()
	Counters() *entity.Counters
	Audit() *audit.Writer
	// Append bypasses the entity's pipeline.
	Append(ctx context.Context, trail *audit.Trail, v *entity.View, partition uint16, groups [][]*core.Message) []core.Appended
	// Judge passes messages through the entity's pipeline. It returns nil without one.
	Judge(ctx context.Context, v *entity.View, groups [][]*core.Message) []pipeline.Result
	StoreResults(ctx context.Context, trail *audit.Trail, v *entity.View, partition uint16, groups [][]*core.Message, results []pipeline.Result) []core.Appended
	// PublishDue publishes scheduled messages of a topic that are due and that the caller has
	// locked. The error is LockLost for a message that another gateway has published.
	PublishDue(ctx context.Context, p core.Partition, ds []core.Delivery) []core.Appended
}

// Forwarders move messages without a client's request: from entities that forward, out of transfer
// queues, and from topics with scheduled messages to their subscriptions. Only entities with such
// messages have a forwarder.
// Every gateway forwards. Locks of messages divide the work, and order leases keep the order.
type Forwarders struct {
	Config
	remotes map[string]core.Remote // by lower-case name

	mu     sync.Mutex
	open   bool
	byKey  map[forwarderKey]*forwarder
	byName map[string][]*forwarder
	// newer has, during a scan, the lower-case names of entities that were read meanwhile. The scan
	// may have read them earlier, before they changed.
	newer map[string]struct{}

	changed *wake.Names // lower-case names of the entities to read again

	localWork, remoteWork workQueue // steps inside the namespace, and steps that wait for a remote

	tasks  sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc
}

type workQueue struct {
	mu     sync.Mutex
	queue  []*partitionForwarder
	active int
	closed bool
}

type forwarderKey struct {
	id  string
	sub core.SubQueue
}

type forwarder struct {
	set         *Forwarders
	key         forwarderKey
	name        string
	to          string // the destination, as forwardTarget returns it; "": each message has its own
	remote      string // the lower-case name of the remote to which messages go; "": none
	partitions  []*partitionForwarder
	retireTimer *time.Timer // guarded by set.mu
}

func New(c Config) *Forwarders {
	s := &Forwarders{Config: c, remotes: newRemotes(c.Remotes), byKey: map[forwarderKey]*forwarder{}, byName: map[string][]*forwarder{}, changed: wake.NewNames()}
	s.ctx, s.cancel = context.WithCancel(s.Base)
	return s
}

// Run starts and ends forwarders as settings change, until ctx ends. Then it waits for their steps.
func (s *Forwarders) Run(ctx context.Context) {
	s.mu.Lock()
	s.open = true
	s.mu.Unlock()
	for name, remote := range s.remotes {
		again := func(f *forwarder) bool { return f.key.sub == core.Transfer || f.remote == name }
		defer remote.Watch(func() { s.retry(again) })()
	}
	tick := time.NewTicker(ScanInterval)
	defer tick.Stop()
	retry := time.NewTimer(readRetry)
	retry.Stop()
	defer retry.Stop()
	scanned := make(chan struct{}, 1)
	scanned <- struct{}{}
	var due <-chan struct{} = scanned // nil unless a scan is requested
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-due:
			due = nil
			s.tasks.Go(func() {
				s.scan(ctx)
				scanned <- struct{}{}
			})
		case <-tick.C:
			due = scanned
		case <-s.changed.Woken:
			all, ok := s.readChanges(ctx)
			if all {
				due = scanned
			}
			if !ok {
				retry.Reset(readRetry)
			}
		case <-retry.C:
			s.changed.Woken.Set()
		}
	}
	s.stop()
}

func (s *Forwarders) stop() {
	s.mu.Lock()
	s.open = false
	for _, f := range s.byKey {
		s.end(f)
	}
	s.mu.Unlock()
	grace := time.AfterFunc(stepGrace, s.cancel)
	defer grace.Stop()
	for _, q := range [...]*workQueue{&s.localWork, &s.remoteWork} {
		q.mu.Lock()
		q.closed = true
		q.mu.Unlock()
	}
	s.tasks.Wait()
	s.cancel()
}

// Changed notes, without blocking, that the entity with this lower-case name has changed; "": any.
func (s *Forwarders) Changed(name string) { s.changed.Note(name) }

// readChanges reads the changed entities. all means that any entity may have changed. ok is false
// if the store did not answer for some entities, which are then read again.
func (s *Forwarders) readChanges(ctx context.Context) (all, ok bool) {
	names, all := s.changed.Take()
	ok = true
	for _, name := range names {
		if name == "" {
			continue
		}
		ent, err := s.Store.Entity(ctx, s.ID, name)
		switch {
		case err == nil:
			s.apply(name, &ent)
		case core.CodeOf(err) == core.NotFound:
			s.apply(name, nil)
		default:
			s.changed.Keep(name)
			ok = false
			continue
		}
		s.retry(func(f *forwarder) bool { return f.to == name || f.name == name || f.key.sub == core.Transfer })
	}
	return all, ok
}

func (s *Forwarders) scan(ctx context.Context) {
	s.mu.Lock()
	s.newer = map[string]struct{}{}
	s.mu.Unlock()
	var uncounted error
	err := s.Walk(ctx, func(ent *core.Entity) {
		s.applyListed(ent)
		uncounted = cmp.Or(s.startForBacklog(ctx, ent), uncounted)
	})
	s.mu.Lock()
	s.newer = nil
	s.mu.Unlock()
	if err = cmp.Or(err, uncounted); err != nil && ctx.Err() == nil {
		s.Log.Warn("cannot check all entities for messages to forward; checking them again in a minute", "err", err)
		time.AfterFunc(ScanRetry, func() { s.Changed("") })
	}
}

func (s *Forwarders) applyListed(ent *core.Entity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, newer := s.newer[core.FoldName(ent.Name)]; !newer {
		s.reconcile(ent)
	}
}

// apply applies what was read of the entity with a lower-case name; ent is nil if there is none.
func (s *Forwarders) apply(name string, ent *core.Entity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newer != nil {
		s.newer[name] = struct{}{}
	}
	if ent != nil {
		s.reconcile(ent)
		return
	}
	for _, f := range slices.Clone(s.byName[name]) {
		s.end(f)
	}
}

// s.mu is held.
func (s *Forwarders) reconcile(ent *core.Entity) {
	name := core.FoldName(ent.Name)
	for sub := range core.SubQueues {
		to := forwardTarget(&ent.Settings, sub)
		if f := s.byKey[forwarderKey{ent.ID, sub}]; f != nil && f.to != to {
			s.end(f)
		}
		if to != "" {
			s.start(ent, sub)
		}
	}
	for _, f := range slices.Clone(s.byName[name]) {
		if f.key.id != ent.ID {
			s.end(f)
		}
	}
}

// retry makes the forwarders for which selected returns true try again to move their messages.
func (s *Forwarders) retry(selected func(*forwarder) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.byKey {
		if selected(f) {
			for _, pf := range f.partitions {
				pf.retry()
			}
		}
	}
}

func (s *Forwarders) Wake() { s.retry(func(*forwarder) bool { return true }) }

func (s *Forwarders) startForBacklog(ctx context.Context, ent *core.Entity) (err error) {
	subs := []core.SubQueue{core.Transfer}
	if ent.Kind == core.Topic {
		subs = []core.SubQueue{core.Main, core.Transfer}
	}
	for _, sub := range subs {
		ps := make([]core.Partition, ent.Partitions)
		for i := range ps {
			ps[i] = s.Partition(ent, uint16(i), sub)
		}
		for _, c := range s.Store.StatsOf(ctx, ps) {
			err = cmp.Or(c.Err, err)
			if c.Err == nil && c.Stats.Ready+c.Stats.Locked+c.Stats.Scheduled > 0 {
				s.mu.Lock()
				s.start(ent, sub)
				s.mu.Unlock()
				break
			}
		}
	}
	return err
}

func (s *Forwarders) MessagesAdded(v *entity.View, sub core.SubQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.start(&v.Entity, sub); f != nil {
		for _, pf := range f.partitions {
			pf.wake("")
		}
	}
}

// ExpectExpiry wakes the forwarder of dead letters at the given time. It ignores a zero time.
func (s *Forwarders) ExpectExpiry(v *entity.View, at time.Time) {
	if at.IsZero() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.byKey[forwarderKey{v.ID, core.DeadLetter}]; f != nil {
		for _, pf := range f.partitions {
			pf.wakeAt(at)
		}
	}
}

// s.mu is held.
func (s *Forwarders) start(ent *core.Entity, sub core.SubQueue) *forwarder {
	key := forwarderKey{ent.ID, sub}
	if f := s.byKey[key]; f != nil || !s.open {
		return f
	}
	f := &forwarder{set: s, key: key, name: core.FoldName(ent.Name), to: forwardTarget(&ent.Settings, sub)}
	if remote, _, ok := core.SplitRemote(f.to); ok {
		f.remote = remote
		if s.remotes[remote] == nil {
			s.Log.Warn("the entity forwards to a remote that is not configured: the entity's messages wait", "entity", ent.Name, "to", f.to)
		}
	}
	for i := range ent.Partitions {
		pf := &partitionForwarder{parent: f, index: i}
		pf.timer = wake.Timer(pf.elapsed)
		f.partitions = append(f.partitions, pf)
	}
	s.byKey[key] = f
	s.byName[f.name] = append(s.byName[f.name], f)
	s.Log.Debug("forwarder started", "entity", ent.Name, "sub", sub.Suffix(), "to", f.to)
	for i, pf := range f.partitions {
		pf.open(s.Partition(ent, uint16(i), sub).In(s.Store).Watch(core.WakeFunc(pf.wake)))
	}
	return f
}

// s.mu is held.
func (s *Forwarders) end(f *forwarder) {
	delete(s.byKey, f.key)
	s.byName[f.name] = slices.DeleteFunc(s.byName[f.name], func(other *forwarder) bool { return other == f })
	if len(s.byName[f.name]) == 0 {
		delete(s.byName, f.name)
	}
	if f.retireTimer != nil {
		f.retireTimer.Stop()
	}
	for _, pf := range f.partitions {
		pf.stop()
	}
}

func (s *Forwarders) retireIfIdle(f *forwarder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey[f.key] != f || !f.idle() {
		return
	}
	if f.retireTimer == nil {
		f.retireTimer = time.AfterFunc(IdleLife, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			f.retireTimer = nil
			if s.byKey[f.key] == f && f.idle() {
				s.end(f)
			}
		})
	}
}

func (f *forwarder) idle() bool {
	return !slices.ContainsFunc(f.partitions, func(pf *partitionForwarder) bool { return !pf.isIdle() })
}

// Steps that wait for remotes have a separate queue, so that they do not delay the others.
func (s *Forwarders) enqueue(pf *partitionForwarder) {
	q := &s.localWork
	if pf.parent.remote != "" {
		q = &s.remoteWork
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.queue = append(q.queue, pf)
	if q.active < MaxConcurrentSteps {
		q.active++
		s.tasks.Go(func() { s.serve(q) })
	}
}

func (s *Forwarders) serve(q *workQueue) {
	for {
		q.mu.Lock()
		if len(q.queue) == 0 {
			q.queue = nil
			q.active--
			q.mu.Unlock()
			return
		}
		pf := q.queue[0]
		q.queue = q.queue[1:]
		q.mu.Unlock()
		pf.serve(s.ctx)
	}
}

// DropHeld forgets the messages that partition forwarders hold back, so that new messages do not
// wait behind them: the store has removed them. If it has not cleared their entity, their locks
// expire. The barrier must be closed.
func (s *Forwarders) DropHeld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.byKey {
		for _, l := range p.partitions {
			l.held, l.blocked, l.manyDestinations, l.holdTime = nil, nil, false, 0
			l.retry()
		}
	}
}

// forwardTarget is ForwardPath with lower-case names, except for a name at a remote: case may
// matter there.
func forwardTarget(s *core.Settings, sub core.SubQueue) string {
	to := entity.ForwardPath(s, sub)
	if remote, entity, ok := core.SplitRemote(to); ok {
		return core.FoldName(remote) + ":" + entity
	}
	return core.FoldName(to)
}

func (s *Forwarders) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byKey)
}
