package admin

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

// reloadTimeout bounds how long a reload of a plugin may take.
const reloadTimeout = 2 * time.Minute

// plugins answers GET with the state of all plugins, or of one; POST reloads one.
func (a *API) plugins(c *call) (any, error) {
	switch {
	case c.path == "" && c.Method == http.MethodGet:
		return a.Plugins.States(), nil
	case c.path == "":
		return nil, wrongMethod(http.MethodGet)
	case c.Method == http.MethodPost:
		return a.reload(c)
	case c.Method == http.MethodGet:
		return a.plugin(c.path)
	}
	return nil, wrongMethod("GET, POST")
}

func (a *API) plugin(name string) (any, error) {
	states := a.Plugins.States()
	if i := slices.IndexFunc(states, func(s host.State) bool { return s.Name == name }); i >= 0 {
		return states[i], nil
	}
	return nil, core.Refuse(core.NotFound, "There is no plugin %q.", name)
}

func (a *API) reload(c *call) (any, error) {
	var request api.ReloadRequest
	if err := c.read(&request, `{"sha256": "…"}`); err != nil {
		return nil, err
	}
	// The reload goes on if the client leaves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), reloadTimeout)
	defer cancel()
	if err := a.Plugins.Reload(ctx, c.path, request.SHA256); err != nil {
		return nil, err
	}
	return a.plugin(c.path)
}

// pipelines answers with the counts of the stages of all pipelines.
func (a *API) pipelines(*call) (any, error) { return a.Stages(), nil }
