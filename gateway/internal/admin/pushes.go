package admin

import "github.com/crosstown-mq/crosstown/gateway/internal/admin/api"

// pushes answers with the state of the pushes of the client's namespace or, for an operator, of all.
func (a *API) pushes(c *call) (any, error) {
	all := []api.Push{}
	for _, p := range a.Pushes {
		if a.isOperator(c.id) || p.Namespace == c.id.NamespaceID() {
			all = append(all, api.Push{Namespace: p.Namespace, PushState: p.State()})
		}
	}
	return all, nil
}
