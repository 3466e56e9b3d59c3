package admin

import (
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

// entityPage is how many entities are counted at a time.
const entityPage = 1000

// entities lists the entities of the client's namespace with their counts.
func (a *API) entities(c *call) (any, error) {
	list := api.EntityList{Entities: []api.Entity{}}
	queues, err := a.listEntities(c, core.Listing{Kind: core.Queue})
	if err != nil {
		return nil, err
	}
	topics, err := a.listEntities(c, core.Listing{Kind: core.Topic})
	if err != nil {
		return nil, err
	}
	list.Entities = append(list.Entities, queues...)
	for _, topic := range topics {
		list.Entities = append(list.Entities, topic)
		subscriptions, err := a.listEntities(c, core.Listing{Kind: core.Subscription, Topic: topic.Name})
		if err != nil && core.CodeOf(err) != core.NotFound { // it may be deleted meanwhile
			return nil, err
		}
		list.Entities = append(list.Entities, subscriptions...)
	}
	list.At = time.Now()
	return list, nil
}

func (a *API) listEntities(c *call, l core.Listing) (all []api.Entity, err error) {
	for {
		es, counts, err := a.Broker.Entities(c.Context(), c.id, l, len(all), entityPage)
		if err != nil || len(es) == 0 {
			return all, err
		}
		for i := range es {
			all = append(all, entityOf(&es[i], &counts[i]))
		}
	}
}

func entityOf(e *core.Entity, n *core.Runtime) api.Entity {
	return api.Entity{
		Name: e.Name, Kind: strings.ToLower(e.Kind.String()), Status: string(e.Settings.Status),
		Active: n.Active, Locked: n.Locked, Deferred: n.Deferred, Scheduled: n.Scheduled, DeadLetter: n.DeadLetter,
		Transfer: n.Transfer, TransferDeadLetter: n.TransferDeadLetter, Damaged: n.Damaged, Bytes: n.Bytes, Enqueued: n.Enqueued, Consumers: n.Consumers,
	}
}
