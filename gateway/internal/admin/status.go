package admin

import (
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

// status describes the client's namespace at this gateway.
func (a *API) status(c *call) (any, error) {
	about, err := a.Directory.Describe(c.Context(), c.id.Namespace())
	if err != nil {
		return nil, err
	}
	served, err := a.served(c.id)
	if err != nil {
		return nil, err
	}
	return api.Status{
		Namespace: about.Name, Now: served.Broker.Now(), VirtualTime: about.Clock != nil,
		Frozen: about.Clock != nil && !about.Clock.Frozen.IsZero(), AllowFaults: about.AllowFaults,
	}, nil
}
