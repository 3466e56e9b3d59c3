package admin

import (
	"math"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

// damaged lists the damaged messages of an entity, for clients with Listen on it.
func (a *API) damaged(c *call) (any, error) {
	from, err := c.number("from", 0, math.MaxInt)
	if err != nil {
		return nil, err
	}
	top, err := c.number("top", defaultTop, maxTop)
	if err != nil {
		return nil, err
	}
	address, err := c.may(core.Listen, c.path, api.DamagedPath)
	if err != nil {
		return nil, err
	}
	_, n, err := a.reach(c, address)
	if err != nil {
		return nil, err
	}
	found, err := n.Broker.PeekDamaged(c.Context(), c.id, address, int64(from), top)
	if err != nil {
		return nil, err
	}
	list := api.DamagedList{Damaged: make([]api.Damaged, len(found))}
	for i, d := range found {
		list.Damaged[i] = api.Damaged{
			SequenceNumber: d.SequenceNumber, Enqueued: d.EnqueuedTime, Deliveries: d.DeliveryCount, Session: d.SessionID, Reason: d.Reason,
		}
		if !d.ExpiresAt.IsZero() {
			list.Damaged[i].Expires = &d.ExpiresAt
		}
	}
	return list, nil
}
