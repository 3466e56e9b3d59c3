package broker

import (
	"cmp"
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

// Sessions describes the sessions that have messages or state, in the order of their ids, from the
// index skip, up to top. Unlike ListSessions, it does not count as a use of the entity. Its cost
// does not depend on the number of messages.
func (b *Broker) Sessions(ctx context.Context, name string, skip, top int) ([]core.SessionInfo, error) {
	e, v, err := b.viewWithSessions(ctx, name)
	if err != nil {
		return nil, err
	}
	ids, err := b.listSessions(ctx, e, v, time.Time{}, skip, top)
	if err != nil {
		return nil, b.refusals.Of(err, &v.Entity)
	}
	return b.describeSessions(ctx, v, ids, false)
}

// Session describes a session. A session without messages and state has an empty description.
func (b *Broker) Session(ctx context.Context, name, id string) (core.SessionInfo, error) {
	_, v, err := b.viewWithSessions(ctx, name)
	if err != nil {
		return core.SessionInfo{}, err
	}
	all, err := b.describeSessions(ctx, v, []string{id}, true)
	if err != nil {
		return core.SessionInfo{}, err
	}
	return all[0], nil
}

func (b *Broker) viewWithSessions(ctx context.Context, name string) (*entry, *entity.View, error) {
	e, err := b.entity(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	v := e.View()
	if !v.Settings.RequiresSession {
		return nil, nil, core.Refuse(core.InvalidArgument, "'%s' does not support sessions: create an entity with RequiresSession.", v.Name)
	}
	return e, v, nil
}

func (b *Broker) describeSessions(ctx context.Context, v *entity.View, ids []string, content bool) ([]core.SessionInfo, error) {
	partitions := v.Queues[core.Main]
	places := make([][]int, len(partitions))
	for i, id := range ids {
		at := core.PartitionOf(string(core.KeyOfSession(id)), len(partitions))
		places[at] = append(places[at], i)
	}
	all, errs := make([]core.SessionInfo, len(ids)), make([]error, len(partitions))
	entity.InParallel(len(partitions), func(p int) {
		if len(places[p]) == 0 {
			return
		}
		own := make([]string, len(places[p]))
		for j, i := range places[p] {
			own[j] = ids[i]
		}
		var told []core.SessionInfo
		if told, errs[p] = partitions[p].DescribeSessions(ctx, own, content); errs[p] == nil {
			for j, i := range places[p] {
				all[i] = told[j]
			}
		}
	})
	if err := cmp.Or(errs...); err != nil {
		return nil, b.refusals.Of(err, &v.Entity)
	}
	return all, nil
}
