package admin

import (
	"cmp"
	"math"
	"net/http"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

func (a *API) showMetrics(c *call) (any, error) {
	if a.isOperator(c.id) {
		return a.Metrics, nil
	}
	n, err := a.started(c)
	if err != nil {
		return nil, err
	}
	return n.Metrics, nil
}

// count counts an entity's messages. The client needs the right Listen on the entity.
func (a *API) count(c *call) (any, error) {
	e, n, err := a.listened(c, "a queue, topic or subscription", api.CountersPath)
	if err != nil {
		return nil, err
	}
	return n.Counters.Read(c.Context(), e)
}

// explain returns the history of a message. The client needs the right Manage on its entity.
func (a *API) explain(c *call) (any, error) {
	number, err := c.number("sequence-number", 0, 0, math.MaxInt)
	if err != nil {
		return nil, err
	}
	account, err := a.Broker.Explain(c.Context(), c.id, c.path, core.Subject{MessageID: c.URL.Query().Get("message-id"), Number: int64(number)})
	if core.CodeOf(err) == core.NotAllowed { // the entity keeps no history
		return nil, core.Refuse(core.NotFound, "%s", core.TextOf(err))
	}
	if err != nil {
		return nil, err
	}
	return api.AccountOf(c.id.Namespace(), &account), nil
}

// leastPurge is the number of messages that one call can remove in every tier. After a call that
// removed fewer, only messages that have just arrived can be left.
const leastPurge = 500

// purge removes the messages of an entity. The client needs the right Listen on the entity.
func (a *API) purge(c *call) (any, error) {
	later := time.Now().Add(core.KeyLife)
	total, last := 0, false
	for {
		n, err := a.Broker.Purge(c.Context(), c.id, core.At(c.path), later, math.MaxInt)
		total += n
		switch {
		case err != nil && total > 0:
			return nil, core.Refuse(core.CodeOf(err), "Only %d of the messages could be removed: %s", total, textOf(err))
		case err != nil:
			return nil, err
		case last || n == 0:
			return api.Purged{Purged: total}, nil
		case c.Context().Err() != nil:
			return nil, c.Context().Err()
		}
		last = n < leastPurge // a small n means the end; one more call shows whether a partition failed
	}
}

const entityPage = 1000

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
		if err != nil && core.CodeOf(err) != core.NotFound { // the topic may have been deleted in the meantime
			return nil, err
		}
		list.Entities = append(list.Entities, subscriptions...)
	}
	list.At = time.Now()
	return list, nil
}

func (a *API) listEntities(c *call, l core.Listing) (all []api.Entity, err error) {
	var counts []core.Runtime
	err = core.EachEntity(entityPage, func(skip int) (es []core.Entity, err error) {
		es, counts, err = a.Broker.Entities(c.Context(), c.id, l, skip, entityPage)
		return es, err
	}, func(i int, e *core.Entity) {
		all = append(all, api.Entity{Name: e.Name, Kind: e.Kind.Word(), Status: string(e.Settings.Status), Runtime: counts[i]})
	})
	return all, err
}

func (a *API) history(c *call) (any, error) {
	if c.URL.Query().Has("gateway") {
		return a.gatewayHistory(c)
	}
	if err := c.id.Check(core.Manage, c.path, time.Now()); err != nil {
		return nil, err
	}
	var told api.History
	if c.path != "" {
		e, err := a.Broker.Resolve(c.Context(), c.id, core.At(c.path))
		if err != nil {
			return nil, err
		}
		told.Entity = e.Name
	}
	samples := a.History.Of(c.Context(), c.id.NamespaceID(), told.Entity)
	n := len(samples)
	told.At, told.In, told.Out = make([]int64, n), make([]int64, n), make([]int64, n)
	for i, s := range samples {
		told.At[i], told.In[i], told.Out[i] = int64(s.At), s.In, s.Out
		if told.Entity != "" {
			told.Active, told.Scheduled, told.DeadLetter = append(told.Active, int64(s.Active)), append(told.Scheduled, int64(s.Scheduled)), append(told.DeadLetter, int64(s.DeadLetter))
		}
	}
	return told, nil
}

func (a *API) gatewayHistory(c *call) (any, error) {
	if err := a.operates(c.id); err != nil {
		return nil, err
	}
	told := api.GatewayHistory{At: []int64{}, LatencyMS: []float64{}, InUse: []int64{}, Messages: []int64{}}
	for _, v := range a.History.Vitals() {
		told.At, told.LatencyMS = append(told.At, int64(v.At)), append(told.LatencyMS, v.LatencyMS)
		told.InUse, told.Messages = append(told.InUse, v.InUse), append(told.Messages, v.Messages)
	}
	return told, nil
}

func (a *API) schedules(c *call) (any, error) {
	n, err := a.started(c)
	if err != nil {
		return nil, err
	}
	switch {
	case c.path == "":
		skip, top, err := c.page("skip", 1<<31-1)
		if err != nil {
			return nil, err
		}
		all, err := n.Broker.Schedules(c.Context(), c.id, skip, top)
		return api.ScheduleList{Schedules: all}, err
	case c.Method == http.MethodGet:
		return n.Broker.Schedule(c.Context(), c.id, c.path)
	case c.Method == http.MethodPut:
		return putSchedule(c, n)
	}
	return map[string]string{"deleted": c.path}, n.Broker.DeleteSchedule(c.Context(), c.id, c.path)
}

func putSchedule(c *call, n *Served) (any, error) {
	var request core.ScheduleState // in the form of the answer to GET
	if err := c.read(&request, `{"cron": "0 6 * * MON-FRI", "zone": "Europe/Berlin", "entity": "orders", "message": {"body": "hello"}}`); err != nil {
		return nil, err
	}
	if c.Header.Get("If-None-Match") == "*" {
		if _, err := n.Broker.Schedule(c.Context(), c.id, c.path); core.CodeOf(err) != core.NotFound {
			return nil, cmp.Or(err, core.Refuse(core.AlreadyExists, "The schedule '%.60s' already exists: update or delete it.", c.path))
		}
	}
	request.Name = c.path
	put, created, err := n.Broker.PutSchedule(c.Context(), c.id, request.ScheduleSettings)
	if created {
		c.status = http.StatusCreated
	}
	return put, err
}
