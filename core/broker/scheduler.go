package broker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/cron"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	// missedAfter is how late a tick may be sent without being missed. If the last tick is ahead of
	// the clock by more than that, the clock was set back.
	missedAfter = time.Minute
	// schedulerNap limits how long the scheduler sleeps, because the clock may be set at any time.
	schedulerNap   = time.Minute
	schedulerRetry = 5 * time.Second
)

// scheduler sends the messages of a namespace's schedules. All gateways send each tick, but the
// partition stores only one message, because all have the same Transit.Key. A gateway reads the
// schedule before it sends, and then records the tick in it.
type scheduler struct {
	b       *Broker
	changed *wake.Names // lower-case names of schedules to read again

	mu      sync.Mutex
	wanted  []core.ScheduleSettings // the configuration's schedules that are not stored yet
	failing map[string]string

	round  sync.Mutex // held during runDue; guards what follows
	known  map[string]*planned
	looked time.Time
}

type planned struct {
	core.Entity
	key   string
	ticks *cron.Ticks
	at    time.Time // zero: no tick is planned until the schedule is read again
}

func (s *scheduler) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed.Woken:
		case <-timer.C:
		}
		if wait := s.runDue(ctx); wait > 0 {
			timer.Reset(wait)
		}
	}
}

func (s *scheduler) want(all []core.ScheduleSettings) {
	s.mu.Lock()
	s.wanted = append([]core.ScheduleSettings{}, all...)
	s.mu.Unlock()
	s.changed.Woken.Set()
}

func (s *scheduler) note(folded string) {
	if folded != "" && !core.IsSchedulePath(folded) {
		return
	}
	s.changed.Note(folded)
}

// runDue sends what is due. It returns how long to wait; 0 means until something changes.
func (s *scheduler) runDue(ctx context.Context) (wait time.Duration) {
	s.round.Lock()
	defer s.round.Unlock()
	if isAhead(s.looked, s.b.store.Now()) {
		s.note("")
	}
	done := s.read(ctx) && s.declare(ctx)
	var next time.Time
	for {
		done = s.read(ctx) && done
		now := s.b.store.Now()
		s.looked = now
		var due []*planned
		if due, next = s.due(now); len(due) == 0 || ctx.Err() != nil {
			break
		}
		errs := make([]error, len(due))
		entity.InParallel(len(due), func(i int) { errs[i] = s.send(ctx, due[i]) })
		for i, p := range due {
			p.at = time.Time{}
			if s.report(p.key, p.Schedule, errs[i]); errs[i] == nil {
				s.note(p.key) // planned again, with its next tick
			} else {
				p.at = now.Add(schedulerRetry)
			}
		}
	}
	switch {
	case !done:
		return schedulerRetry
	case !next.IsZero():
		return min(max(next.Sub(s.b.store.Now()), time.Millisecond), schedulerNap)
	}
	return 0
}

func (s *scheduler) due(now time.Time) (all []*planned, next time.Time) {
	for _, p := range s.known {
		switch {
		case p.at.IsZero():
		case !p.at.After(now):
			all = append(all, p)
		case next.IsZero() || p.at.Before(next):
			next = p.at
		}
	}
	return all, next
}

// report records why a schedule could not send (nil: it could), and logs a reason that is new.
func (s *scheduler) report(key string, set *core.ScheduleSettings, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.failing, key)
	} else if text := cmp.Or(core.TextOf(err), err.Error()); s.failing[key] != text {
		s.failing[key] = text
		s.b.log.Warn("a schedule cannot send its message; trying again", "schedule", set.Name, "entity", set.Entity, "err", text)
	}
}

func (b *Broker) FailingSchedules() int {
	b.scheduler.mu.Lock()
	defer b.scheduler.mu.Unlock()
	return len(b.scheduler.failing)
}

func (s *scheduler) state(ent *core.Entity) core.ScheduleState {
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := core.ScheduleState{ScheduleSettings: *ent.Schedule, Error: s.failing[core.FoldName(ent.Name)]}
	if ticks, err := cron.Parse(ent.Schedule.Cron, ent.Schedule.Zone); err == nil {
		shown.Next = ticks.Next(s.b.store.Now()).UTC()
		// LastTick is not a tick, but the time of the creation or of the last change
		if !ticks.Next(shown.LastTick.Add(-time.Second)).Equal(shown.LastTick) {
			shown.LastTick = time.Time{}
		}
	}
	return shown
}

func (s *scheduler) declare(ctx context.Context) (done bool) {
	s.mu.Lock()
	wanted := s.wanted
	s.wanted = nil
	s.mu.Unlock()
	if wanted == nil {
		return true
	}
	names := map[string]bool{}
	done = true
	for _, set := range wanted {
		set.Configured = true
		key := core.FoldName(core.SchedulePath(set.Name))
		names[key] = true
		_, _, err := s.b.putSchedule(ctx, set)
		s.report(key, &set, err)
		done = done && err == nil
	}
	if !done {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.wanted == nil { // if not, the method want has set newer ones
			s.wanted = wanted
		}
		return false
	}
	for key, p := range s.known {
		if p.Schedule.Configured && !names[key] {
			s.b.log.Warn("a schedule from a gateway's configuration is in the store, but not in the configuration of this gateway", "schedule", p.Schedule.Name, "entity", p.Schedule.Entity,
				"remedy", "delete it: crosstown schedule delete "+p.Schedule.Name)
		}
	}
	return true
}

func (s *scheduler) read(ctx context.Context) (answered bool) {
	changed, all := s.changed.Take()
	var found []core.Entity
	var err error
	names := changed
	if all {
		names = slices.Collect(maps.Keys(s.known))
		err = s.b.walkListing(ctx, core.Listing{Kind: core.Schedule}, func(ent *core.Entity) {
			found = append(found, *ent)
		})
	} else {
		found = make([]core.Entity, len(names))
		errs := make([]error, len(names))
		entity.InParallel(len(names), func(i int) { found[i], errs[i] = s.b.store.Entity(ctx, s.b.ns.ID, names[i]) })
		for i := range errs {
			if core.CodeOf(errs[i]) != core.NotFound {
				err = cmp.Or(err, errs[i])
			}
		}
	}
	if err != nil {
		s.changed.Keep(changed...)
		return false
	}
	for _, name := range names {
		delete(s.known, name)
	}
	for i := range found {
		if found[i].Schedule != nil {
			s.plan(&found[i])
		}
	}
	for _, name := range names {
		if s.known[name] == nil {
			s.report(name, nil, nil)
		}
	}
	return true
}

func (s *scheduler) plan(ent *core.Entity) {
	p := &planned{Entity: *ent, key: core.FoldName(ent.Name)}
	s.known[p.key] = p
	var err error
	if p.ticks, err = cron.Parse(ent.Schedule.Cron, ent.Schedule.Zone); err != nil { // this machine does not know the time zone
		s.report(p.key, p.Schedule, err)
		return
	}
	p.at = p.ticks.Next(ent.Schedule.LastTick)
	if now := s.b.store.Now(); isAhead(ent.Schedule.LastTick, now) {
		p.at = now
	}
}

// isAhead reports whether the clock was set back, by more than missedAfter, since it showed last.
func isAhead(last, now time.Time) bool { return last.After(now.Add(missedAfter)) }

func (s *scheduler) send(ctx context.Context, p *planned) error {
	ent, err := s.b.store.Entity(ctx, s.b.ns.ID, p.Name)
	if core.CodeOf(err) == core.NotFound || err == nil && (ent.ID != p.ID || ent.Revision != p.Revision) {
		return nil // read will find the change
	}
	if err != nil {
		return err
	}
	now, last := s.b.store.Now(), ent.Schedule.LastTick
	tick := now // now if the clock was set back: the next tick is then later than now
	if !isAhead(last, now) {
		if tick = p.ticks.Latest(last, now); tick.IsZero() {
			return nil
		}
		if ent.Schedule.Missed != core.MissedSkip || now.Sub(tick) <= missedAfter {
			if err := s.sendTick(ctx, &ent, tick); err != nil {
				return err
			}
		}
	}
	ent.Schedule.LastTick = tick.UTC()
	_, err = s.b.store.UpdateEntity(ctx, ent, core.NamespaceQuotas{})
	switch core.CodeOf(err) {
	case core.Conflict, core.NotFound: // another gateway has recorded the tick, or the schedule has changed
		return nil
	}
	if err == nil && !isAhead(last, now) {
		s.forgetTick(ctx, &ent, last)
	}
	return err
}

// The Transit.Key of a tick's message makes the partition store it only once.
func tickMessage(ent *core.Entity, tick time.Time) (*core.Message, error) {
	m, err := ent.Schedule.Message.Message()
	if err != nil {
		return nil, err
	}
	m.MessageID = core.StringID(ent.Schedule.Name + "@" + tick.UTC().Format(time.RFC3339))
	m.Transit = &core.Transit{Key: fmt.Sprintf("schedule/%s/%d", ent.ID, tick.Unix())}
	return m, nil
}

func (s *scheduler) sendTick(ctx context.Context, ent *core.Entity, tick time.Time) error {
	m, err := tickMessage(ent, tick)
	if err != nil {
		return err
	}
	id := core.Identity{{Policy: "schedule " + ent.Schedule.Name, Rights: core.Send}}
	sender, err := s.b.openSender(ctx, id, core.At(ent.Schedule.Entity), nil)
	if err != nil {
		return err
	}
	defer sender.Close()
	return sender.Send(ctx, [][]*core.Message{{m}})[0].Err
}

// forgetTick removes the Transit.Key of an earlier tick from its partition. If that fails, the
// partition forgets the key after core.KeyLife.
func (s *scheduler) forgetTick(ctx context.Context, ent *core.Entity, tick time.Time) {
	v, err := s.b.find(ctx, ent.Schedule.Entity)
	if err != nil {
		return
	}
	if m, err := tickMessage(ent, tick); err == nil {
		key, queues := cmp.Or(entity.KeyOf(m, v.Settings.RequiresDuplicateDetection), m.Transit.Key), v.Queues[core.Main]
		_ = queues[core.PartitionOf(key, len(queues))].Forget(ctx, []string{m.Transit.Key})
	}
}

const maxSchedules = 10_000

// Schedules skips the first skip schedules in the order of their names, and returns up to top. Like
// all calls for schedules it requires the Manage right on the namespace.
func (b *Broker) Schedules(ctx context.Context, id core.Identity, skip, top int) (all []core.ScheduleState, err error) {
	if err := authorize(id, ""); err != nil {
		return nil, err
	}
	all = []core.ScheduleState{}
	page, err := b.store.Entities(ctx, b.ns.ID, core.Listing{Kind: core.Schedule}, max(skip, 0), min(max(top, 0), maxTop))
	for i := range page {
		all = append(all, b.scheduler.state(&page[i]))
	}
	return all, b.ns.Refusal(err, &core.Entity{})
}

func (b *Broker) Schedule(ctx context.Context, id core.Identity, name string) (core.ScheduleState, error) {
	if err := authorize(id, ""); err != nil {
		return core.ScheduleState{}, err
	}
	ent, err := b.store.Entity(ctx, b.ns.ID, core.SchedulePath(name))
	if err != nil {
		return core.ScheduleState{}, b.scheduleRefusal(err, name)
	}
	return b.scheduler.state(&ent), nil
}

// PutSchedule creates a schedule, or changes the one with its name. The entity must exist.
func (b *Broker) PutSchedule(ctx context.Context, id core.Identity, set core.ScheduleSettings) (put core.ScheduleState, created bool, err error) {
	if err := authorize(id, ""); err != nil {
		return put, false, err
	}
	if setting, err := cron.Check(&set, b.store.Now()); err != nil {
		return put, false, core.Refuse(core.InvalidArgument, "The schedule '%.60s' has an invalid '%s': %s", set.Name, setting, cmp.Or(core.TextOf(err), err.Error()))
	}
	if _, err := b.find(ctx, set.Entity); err != nil {
		return put, false, err
	}
	set.Configured = false
	ent, created, err := b.putSchedule(ctx, set)
	if err != nil {
		return put, false, b.scheduleRefusal(err, set.Name)
	}
	return b.scheduler.state(&ent), created, nil
}

func (b *Broker) putSchedule(ctx context.Context, set core.ScheduleSettings) (ent core.Entity, created bool, err error) {
	set.Zone, set.Missed = cmp.Or(set.Zone, "UTC"), cmp.Or(set.Missed, core.MissedOnce)
	for {
		now := b.store.Now().UTC()
		ent, err = b.store.Entity(ctx, b.ns.ID, core.SchedulePath(set.Name))
		created = core.CodeOf(err) == core.NotFound
		switch old := ent.Schedule; {
		case created:
			if err = b.roomFor(ctx, core.Listing{Kind: core.Schedule}, maxSchedules, "The namespace '%s' has %d schedules, which is the limit: delete one first.", b.ns.Name); err != nil {
				return ent, created, err
			}
			set.LastTick = now
			ent, err = b.store.CreateEntity(ctx, core.Entity{
				Namespace: b.ns.ID, Kind: core.Schedule, Name: core.SchedulePath(set.Name), ID: core.NewIncarnation(), CreatedAt: now, UpdatedAt: now, Schedule: &set,
			}, core.NamespaceQuotas{})
		case err != nil:
			return ent, created, err
		case old.Configured && !set.Configured:
			return ent, false, core.Refuse(core.NotAllowed, "The schedule '%s' comes from the configuration of a gateway: change it there.", old.Name)
		default:
			if set.Name, set.LastTick = old.Name, old.LastTick; set.Cron != old.Cron || set.Zone != old.Zone {
				set.LastTick = now // earlier ticks of the new expression were not missed
			}
			if sameSchedule(old, &set) {
				return ent, false, nil
			}
			ent.Schedule, ent.UpdatedAt = &set, now
			ent, err = b.store.UpdateEntity(ctx, ent, core.NamespaceQuotas{})
		}
		if code := core.CodeOf(err); code != core.AlreadyExists && code != core.Conflict {
			return ent, created, err
		}
	}
}

// sameSchedule compares schedules in their JSON form, which has fewer types of numbers.
func sameSchedule(a, b *core.ScheduleSettings) bool {
	x, _ := json.Marshal(a) // cannot fail for a schedule that was checked or read
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// DeleteSchedule returns NotFound for an unknown schedule. Messages already sent stay.
func (b *Broker) DeleteSchedule(ctx context.Context, id core.Identity, name string) error {
	if err := authorize(id, ""); err != nil {
		return err
	}
	return b.scheduleRefusal(b.store.DeleteEntity(ctx, b.ns.ID, core.SchedulePath(name)), name)
}

func (b *Broker) scheduleRefusal(err error, name string) error {
	if core.CodeOf(err) == core.NotFound {
		return core.Refuse(core.NotFound, "There is no schedule '%.60s' in the namespace '%s'.", name, b.ns.Name)
	}
	return b.ns.Refusal(err, &core.Entity{Name: name})
}
