package admin

import (
	"net/http"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/faults"
	"github.com/crosstown-mq/crosstown/core/namespaces"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

func (a *API) ownFaults(c *call) (any, error) {
	about, err := a.Directory.Describe(c.Context(), c.id.Namespace())
	if err != nil {
		return nil, err
	}
	return a.faults(c, &about, c.path)
}

func (a *API) faults(c *call, about *namespaces.About, name string) (any, error) {
	served := a.Served(about.ID)
	if served == nil || served.Faults == nil {
		return nil, core.Refuse(core.NotAllowed, "The namespace '%s' does not allow faults: use a namespace that was created with allowFaults.", about.Name)
	}
	rules := served.Faults
	switch c.Method {
	case http.MethodGet:
	case http.MethodPost:
		var request api.Fault
		if err := c.read(&request, `{"operation": "send", "entity": "orders", "effect": "fail", "code": "busy", "times": 2}`); err != nil {
			return nil, err
		}
		rule, err := ruleOf(&request)
		if err != nil {
			return nil, err
		}
		added, err := rules.Add(c.Context(), rule)
		c.status = http.StatusCreated
		return faultOf(&added), err
	case http.MethodDelete:
		if err := rules.Remove(c.Context(), name); err != nil {
			return nil, err
		}
	default:
		return nil, wrongMethod("GET, POST, DELETE")
	}
	list := api.FaultList{Faults: []api.Fault{}}
	for _, s := range rules.List() {
		list.Faults = append(list.Faults, faultOf(&s))
	}
	return list, nil
}

func ruleOf(request *api.Fault) (faults.Rule, error) {
	r := request.Rule
	for _, d := range []struct {
		name, text string
		into       *time.Duration
	}{{"delay", request.Delay, &r.Delay}, {"life", request.Life, &r.Life}} {
		if d.text == "" {
			continue
		}
		var err error
		if *d.into, err = core.ParseAnyDuration(d.text); err != nil {
			return r, core.Refuse(core.InvalidArgument, "%s is %.40q: it must be a duration such as 500ms, 90s, 5m or PT5M.", d.name, d.text)
		}
	}
	return r, nil
}

func faultOf(s *faults.Status) api.Fault {
	f := api.Fault{Rule: s.Rule, Life: s.Life.String(), Matched: s.Matched, Met: s.Met, Ends: &s.Ends}
	if s.Delay > 0 {
		f.Delay = s.Delay.String()
	}
	return f
}
