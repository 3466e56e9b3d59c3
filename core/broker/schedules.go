package broker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/cron"
)

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
