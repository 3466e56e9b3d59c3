package admin

import (
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

// remotes answers with the state of the remotes of the client's namespace or, for an operator, of all.
func (a *API) remotes(c *call) (any, error) {
	shown := a.Remotes
	if !a.isOperator(c.id) {
		shown = slices.DeleteFunc(slices.Clone(shown), func(m Remote) bool { return m.Namespace != c.id.NamespaceID() })
	}
	all := []api.Remote{}
	var exports []broker.Export
	for i, m := range shown {
		if i == 0 || m.Namespace != shown[i-1].Namespace {
			exports = nil
			if n := a.Served(m.Namespace); n != nil { // it is not while the gateway stops
				var err error
				if exports, err = n.Broker.Exports(c.Context()); err != nil {
					return nil, err
				}
			}
		}
		state := api.Remote{Namespace: m.Namespace, State: m.State(), Waiting: []api.Waiting{}}
		for _, e := range exports {
			if strings.EqualFold(e.Remote, state.Name) {
				state.Waiting = append(state.Waiting, api.Waiting{Entity: e.Entity, DeadLetters: e.DeadLetters, To: e.To, Messages: e.Waiting, Oldest: e.Oldest})
			}
		}
		all = append(all, state)
	}
	return all, nil
}
