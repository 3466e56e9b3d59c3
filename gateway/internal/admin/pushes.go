package admin

import (
	"github.com/crosstown-mq/crosstown/bridges/webhooks"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

// hooks answers with the hooks of the client's namespace or, for an operator, of all.
func (a *API) hooks(c *call) (any, error) {
	all := []api.Hook{}
	for _, h := range a.Hooks() {
		if a.isOperator(c.id) || h.Namespace == c.id.NamespaceID() {
			all = append(all, api.Hook{Namespace: h.Namespace, Name: h.Name, Path: webhooks.Path + h.Name, Entity: h.Entity, Verify: string(h.Scheme), Headers: h.Headers})
		}
	}
	return all, nil
}

// pushes answers with the state of the pushes of the client's namespace or, for an operator, of all.
func (a *API) pushes(c *call) (any, error) {
	all := []api.Push{}
	for _, p := range a.Pushes() {
		if a.isOperator(c.id) || p.Namespace == c.id.NamespaceID() {
			all = append(all, api.Push{Namespace: p.Namespace, PushState: p.State()})
		}
	}
	return all, nil
}
