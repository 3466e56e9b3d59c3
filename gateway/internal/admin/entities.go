package admin

import (
	"math"
	"strconv"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

// showMetrics returns the handler of the metrics that the client may see: all with Manage on the
// gateway's own namespace, those of another namespace with Manage there.
func (a *API) showMetrics(c *call) (any, error) {
	if a.isOperator(c.id) {
		return a.Metrics, nil
	}
	if _, err := a.Broker.Namespace(c.Context(), c.id); err != nil { // it needs Manage, and starts the namespace
		return nil, err
	}
	n, err := a.served(c.id)
	if err != nil {
		return nil, err
	}
	return n.Metrics, nil
}

// count answers with the counts of an entity that autoscalers read, for clients with Listen on it.
func (a *API) count(c *call) (any, error) {
	e, n, err := a.listened(c, "not a queue, topic or subscription", api.CountersPath)
	if err != nil {
		return nil, err
	}
	return n.Counters.Read(c.Context(), e)
}

// explain answers with the history of a message, for clients with Manage on the entity.
func (a *API) explain(c *call) (any, error) {
	subject := core.Subject{MessageID: c.URL.Query().Get("message-id")}
	if text := c.URL.Query().Get("sequence-number"); text != "" {
		var err error
		if subject.Number, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, core.Refuse(core.InvalidArgument, "sequence-number '%.40s' is not a number.", text)
		}
	}
	account, err := a.Broker.Explain(c.Context(), c.id, c.path, subject)
	if core.CodeOf(err) == core.NotAllowed { // the entity keeps no histories
		return nil, core.Refuse(core.NotFound, "%s", core.TextOf(err))
	}
	if err != nil {
		return nil, err
	}
	return api.AccountOf(c.id.Namespace(), &account), nil
}

// leastPurge is the smallest number of messages that the limits of any tier let one call remove. A call
// that removes fewer has found no more, apart from messages that have just arrived.
const leastPurge = 500

// purge removes all messages of an entity that can be received, for clients with Listen on it.
func (a *API) purge(c *call) (any, error) {
	later := time.Now().Add(core.KeyLife) // all messages were enqueued before
	total, last := 0, false
	for {
		n, err := a.Broker.Purge(c.Context(), c.id, core.At(c.path), later, math.MaxInt)
		total += n
		switch {
		case err != nil && total > 0:
			return nil, core.Refuse(core.CodeOf(err), "%d messages were removed, but not all: %s", total, textOf(err))
		case err != nil:
			return nil, err
		case last || n == 0:
			return api.Purged{Purged: total}, nil
		case c.Context().Err() != nil:
			return nil, c.Context().Err()
		}
		last = n < leastPurge // one more call tells whether a partition failed
	}
}
