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
		return nil, b.ns.Refusal(err, &v.Entity)
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
	errs := make([]error, len(partitions))
	of := func(id *string) uint16 { return core.PartitionOf(string(core.KeyOfSession(*id)), len(partitions)) }
	all := entity.ByPartition(partitions, ids, of, core.SessionInfo{}, func(p *core.Partition, part []string) (found []core.SessionInfo) {
		found, errs[p.Index] = p.DescribeSessions(ctx, part, content)
		return found
	})
	if err := cmp.Or(errs...); err != nil {
		return nil, b.ns.Refusal(err, &v.Entity)
	}
	return all, nil
}
