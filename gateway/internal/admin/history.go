package admin

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

// history answers with the samples of an entity, or of the client's namespace.
func (a *API) history(c *call) (any, error) {
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
