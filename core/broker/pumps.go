package broker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// patrolInterval is how often all entities are looked at for pumps that they
	// need: another gateway may have died over what only it knew of.
	patrolInterval = time.Minute
	// pumpLinger is how long a pump outlives the last message it was made for.
	pumpLinger = time.Minute
	// maxSteps is how many lanes work at a time.
	maxSteps = 64
)

// pumps move messages to where they belong, without a client asking: from
// entities that forward, out of transfer queues, and what was scheduled on a
// topic to its subscriptions. Only entities that need one have a pump, and an
// idle pump is a doorbell and a timer.
//
// Every gateway pumps: the locks of messages share the work, and turns keep
// their order.
type pumps struct {
	b *Broker

	mu     sync.Mutex
	open   bool // between start and end of run
	byKey  map[pumpKey]*pump
	byName map[string][]*pump

	news struct { // what changed is called with
		mu    sync.Mutex
		names map[string]struct{} // folded
		all   bool
	}
	wake chan struct{} // there is news; holds at most one

	work, abroad shift // of lanes here, and of those that wait for remotes

	tasks  sync.WaitGroup  // whoever works
	ctx    context.Context // of steps
	cancel context.CancelFunc
}

// shift is lanes that have something to do, and those who see to it.
type shift struct {
	mu     sync.Mutex
	queue  []*lane
	active int // goroutines
	closed bool
}

// pumpKey is the source of a pump: the ID of an entity, and the sub-queue.
type pumpKey struct {
	id  string
	sub core.SubQueue
}

// pump empties one sub-queue of one entity.
type pump struct {
	set  *pumps
	key  pumpKey
	name string // of the entity, folded
	to   string // where the settings forward to, as target has it; "": the messages say
	// passing: it goes when it has nothing left to do.
	passing bool
	remote  string      // that the settings forward to, folded; "": none
	lanes   []*lane     // by partition
	retire  *time.Timer // guarded by set.mu
}

func newPumps(b *Broker) *pumps {
	s := &pumps{b: b, byKey: map[pumpKey]*pump{}, byName: map[string][]*pump{}, wake: make(chan struct{}, 1)}
	s.news.names = map[string]struct{}{}
	s.ctx, s.cancel = context.WithCancel(b.base)
	return s
}

// run keeps the pumps fitting what the entities say, until ctx ends. Then it
// stops them and waits for what they do.
func (s *pumps) run(ctx context.Context) {
	s.mu.Lock()
	s.open = true
	s.mu.Unlock()
	defer s.b.remotes.watch(s)()
	tick := time.NewTicker(patrolInterval)
	defer tick.Stop()
	retry := time.NewTimer(refreshRetry)
	retry.Stop()
	defer retry.Stop()
	patrolled := make(chan struct{}, 1) // holds one while no patrol is under way
	patrolled <- struct{}{}
	var due <-chan struct{} = patrolled // nil while no patrol is wanted
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-due:
			due = nil
			s.tasks.Go(func() {
				s.patrol(ctx)
				patrolled <- struct{}{}
			})
		case <-tick.C:
			due = patrolled
		case <-s.wake:
			all, ok := s.read(ctx)
			if all {
				due = patrolled
			}
			if !ok {
				retry.Reset(refreshRetry)
			}
		case <-retry.C:
			s.nudge()
		}
	}
	s.stop()
}

func (s *pumps) stop() {
	s.mu.Lock()
	s.open = false
	for _, p := range s.byKey {
		s.end(p)
	}
	s.mu.Unlock()
	grace := time.AfterFunc(stopGrace, s.cancel)
	defer grace.Stop()
	s.work.close()
	s.abroad.close()
	s.tasks.Wait()
	s.cancel()
}

// changed notes that the entity of the folded name has changed; "" is any. It
// does not block.
func (s *pumps) changed(name string) {
	s.news.mu.Lock()
	if name == "" {
		s.news.all = true
	} else {
		s.news.names[name] = struct{}{}
	}
	s.news.mu.Unlock()
	s.nudge()
}

func (s *pumps) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// read looks at the entities that have changed. all says that it may be any;
// ok is false when the store did not answer for some, which stay news.
func (s *pumps) read(ctx context.Context) (all, ok bool) {
	s.news.mu.Lock()
	names := s.news.names
	all = s.news.all
	s.news.names, s.news.all = map[string]struct{}{}, false
	s.news.mu.Unlock()
	ok = true
	for name := range names {
		ent, err := s.b.store.Entity(ctx, s.b.namespace, name)
		switch {
		case err == nil:
			s.fit(&ent)
		case core.CodeOf(err) == core.NotFound:
			s.gone(name)
		default:
			s.news.mu.Lock()
			s.news.names[name] = struct{}{}
			s.news.mu.Unlock()
			ok = false
			continue
		}
		s.hurry(name)
	}
	return all, ok
}

// patrol looks at all entities.
func (s *pumps) patrol(ctx context.Context) {
	err := s.b.walk(ctx, func(ent *core.Entity) (gone bool) {
		s.fit(ent)
		s.look(ctx, ent)
		return false
	})
	if err != nil && ctx.Err() == nil {
		s.b.log.Warn("look for entities that forward: done again in a while", "err", err)
	}
}

// fit makes the pumps of an entity those that its settings ask for.
func (s *pumps) fit(ent *core.Entity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := core.FoldName(ent.Name)
	for sub := range core.SubQueues {
		to := target(&ent.Settings, sub)
		if p := s.byKey[pumpKey{ent.ID, sub}]; p != nil && p.to != to {
			s.end(p)
		}
		if to != "" {
			s.start(ent, sub)
		}
	}
	for _, p := range slices.Clone(s.byName[name]) {
		if p.key.id != ent.ID {
			s.end(p)
		}
	}
}

// gone ends the pumps of an entity that is no more.
func (s *pumps) gone(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range slices.Clone(s.byName[name]) {
		s.end(p)
	}
}

// hurry has those try again at once who wait for the entity of the folded name,
// or whose messages may.
func (s *pumps) hurry(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.byKey {
		if p.to == name || p.name == name || p.key.sub == core.Transfer {
			for _, l := range p.lanes {
				l.hurry()
			}
		}
	}
}

// look starts the pumps for messages that an entity holds.
func (s *pumps) look(ctx context.Context, ent *core.Entity) {
	subs := []core.SubQueue{core.Transfer}
	if ent.Kind == core.Topic {
		subs = []core.SubQueue{core.Main, core.Transfer}
	}
	for _, sub := range subs {
		for i := range ent.Partitions {
			stats, err := s.b.store.Stats(ctx, s.b.partition(ent, uint16(i), sub))
			if err == nil && stats.Ready+stats.Locked+stats.Scheduled > 0 {
				s.mu.Lock()
				s.start(ent, sub)
				s.mu.Unlock()
				break
			}
		}
	}
}

// expect has the pump of a sub-queue look for messages that just came.
func (s *pumps) expect(v *view, sub core.SubQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.start(&v.Entity, sub); p != nil {
		for _, l := range p.lanes {
			l.ring("")
		}
	}
}

// expectExpiry has the pump of an entity's dead letters look for them when a
// message of the entity may expire. Zero is never.
func (s *pumps) expectExpiry(v *view, at time.Time) {
	if at.IsZero() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.byKey[pumpKey{v.ID, core.DeadLetter}]; p != nil {
		for _, l := range p.lanes {
			l.ringAt(at)
		}
	}
}

// start makes the pump of a sub-queue unless there is one. s.mu is held.
func (s *pumps) start(ent *core.Entity, sub core.SubQueue) *pump {
	key := pumpKey{ent.ID, sub}
	if p := s.byKey[key]; p != nil || !s.open {
		return p
	}
	p := &pump{set: s, key: key, name: core.FoldName(ent.Name), to: target(&ent.Settings, sub)}
	p.passing = p.to == ""
	if remote, _, ok := core.SplitRemote(p.to); ok {
		p.remote = remote
		if s.b.remotes[remote] == nil {
			s.b.log.Warn("entity forwards to a remote that the configuration does not name: its messages wait", "entity", ent.Name, "to", p.to)
		}
	}
	for i := range ent.Partitions {
		p.lanes = append(p.lanes, &lane{p: p, index: i})
	}
	s.byKey[key] = p
	s.byName[p.name] = append(s.byName[p.name], p)
	s.b.log.Debug("pump started", "entity", ent.Name, "sub", sub.Suffix(), "to", p.to)
	for i, l := range p.lanes {
		l.open(s.b.store.Watch(ent.Ref(uint16(i), sub), l.ring))
	}
	return p
}

// end stops a pump. s.mu is held.
func (s *pumps) end(p *pump) {
	delete(s.byKey, p.key)
	s.byName[p.name] = slices.DeleteFunc(s.byName[p.name], func(other *pump) bool { return other == p })
	if len(s.byName[p.name]) == 0 {
		delete(s.byName, p.name)
	}
	if p.retire != nil {
		p.retire.Stop()
	}
	for _, l := range p.lanes {
		l.stop()
	}
}

// rest is called when a lane of a passing pump has found nothing.
func (s *pumps) rest(p *pump) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey[p.key] != p || !p.idle() {
		return
	}
	if p.retire == nil {
		p.retire = time.AfterFunc(pumpLinger, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			p.retire = nil
			if s.byKey[p.key] == p && p.idle() {
				s.end(p)
			}
		})
	}
}

func (p *pump) idle() bool {
	for _, l := range p.lanes {
		if !l.isIdle() {
			return false
		}
	}
	return true
}

// enqueue has a lane take a step as soon as somebody is free. Who waits for
// remotes keeps nobody else from work.
func (s *pumps) enqueue(l *lane) {
	w := &s.work
	if l.p.remote != "" {
		w = &s.abroad
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.queue = append(w.queue, l)
	if w.active < maxSteps {
		w.active++
		s.tasks.Go(func() { s.serve(w) })
	}
}

func (w *shift) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// serve takes steps until there are none to take.
func (s *pumps) serve(w *shift) {
	for {
		w.mu.Lock()
		if len(w.queue) == 0 {
			w.queue = nil
			w.active--
			w.mu.Unlock()
			return
		}
		l := w.queue[0]
		w.queue = w.queue[1:]
		w.mu.Unlock()
		l.serve(s.ctx)
	}
}
