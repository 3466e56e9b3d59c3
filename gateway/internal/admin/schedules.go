package admin

import (
	"cmp"
	"net/http"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

func (a *API) schedules(c *call) (any, error) {
	n, err := a.started(c)
	if err != nil {
		return nil, err
	}
	switch {
	case c.path == "" && c.Method == http.MethodGet:
		skip, top, err := c.page("skip", 1<<31-1)
		if err != nil {
			return nil, err
		}
		all, err := n.Broker.Schedules(c.Context(), c.id, skip, top)
		return api.ScheduleList{Schedules: all}, err
	case c.path == "":
		return nil, wrongMethod(http.MethodGet)
	case c.Method == http.MethodGet:
		return n.Broker.Schedule(c.Context(), c.id, c.path)
	case c.Method == http.MethodPut:
		return putSchedule(c, n)
	case c.Method == http.MethodDelete:
		return map[string]string{"deleted": c.path}, n.Broker.DeleteSchedule(c.Context(), c.id, c.path)
	}
	return nil, wrongMethod("GET, PUT, DELETE")
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
