package admin

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/faults"
	"github.com/crosstown-mq/crosstown/core/namespaces"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

// namespaces lets operators do everything. Other clients with the right Manage see only their own
// namespace, and may not change or delete it.
func (a *API) namespaces(c *call) (any, error) {
	name, operation, _ := strings.Cut(c.path, "/")
	operator := a.isOperator(c.id)
	switch {
	case name == "" && c.Method == http.MethodGet:
		return a.list(c, operator)
	case name == "":
		return nil, wrongMethod(http.MethodGet)
	case !operator && core.FoldName(name) != core.FoldName(c.id.Namespace()):
		return nil, core.Refuse(core.Unauthorized, "Unauthorized access. For namespaces other than '%s', 'Manage' on the gateway's own namespace is required.", c.id.Namespace())
	case operation == "":
		return a.namespace(c, name, operator)
	case operation == api.FaultsOf || strings.HasPrefix(operation, api.FaultsOf+"/"):
		about, err := a.Directory.Describe(c.Context(), name)
		if err != nil {
			return nil, err
		}
		return a.faults(c, &about, strings.TrimPrefix(operation[len(api.FaultsOf):], "/"))
	case operation == api.ClockOf:
		return a.clock(c, name)
	case c.Method != http.MethodPost:
		return nil, wrongMethod(http.MethodPost)
	case operation == api.Reset:
		return map[string]string{"reset": name}, a.Directory.ResetNamed(c.Context(), name)
	}
	policy, ok := strings.CutPrefix(operation, "policies/")
	if policy, ok2 := strings.CutSuffix(policy, "/"+api.Rotate); ok && ok2 {
		about, err := a.Directory.Rotate(c.Context(), name, policy)
		return a.describe(c, &about, true), fixed(err, "")
	}
	return nil, core.Refuse(core.NotFound, "The operation does not exist. The operations are: POST %s/NAME/reset; POST %[1]s/NAME/policies/POLICY/rotate; GET or PUT %[1]s/NAME/clock; GET, POST or DELETE %[1]s/NAME/faults.", api.NamespacesPath)
}

func (a *API) namespace(c *call, name string, operator bool) (answer any, err error) {
	switch {
	case c.Method == http.MethodGet:
		about, err := a.Directory.Describe(c.Context(), name)
		return a.describe(c, &about, true), err
	case c.Method != http.MethodPut && c.Method != http.MethodDelete:
		return nil, wrongMethod("GET, PUT, DELETE")
	case !operator:
		return nil, core.Refuse(core.Unauthorized, "Unauthorized access. 'Manage' on the gateway's own namespace is required to change or delete namespaces.")
	case c.Method == http.MethodPut:
		answer, err = a.put(c, name)
	default:
		answer, err = map[string]string{"deleted": name}, a.Directory.Delete(c.Context(), name)
	}
	return answer, fixed(err, http.MethodGet)
}

func fixed(err error, methods string) error {
	if core.CodeOf(err) == core.NotAllowed {
		return &methodError{err, methods}
	}
	return err
}

// put creates a namespace, or changes an existing one unless the request has If-None-Match: *.
func (a *API) put(c *call, name string) (any, error) {
	var request api.NamespaceRequest
	if err := c.read(&request, `{"hosts": ["a.example"], "policies": [{"name": "app", "rights": "Send,Listen"}], "quotas": {"maxEntities": 10}}`); err != nil {
		return nil, err
	}
	created := core.Namespace{Name: name}
	created.AllowFaults = request.AllowFaults != nil && *request.AllowFaults
	if request.VirtualTime != nil && *request.VirtualTime {
		created.Clock = &core.VirtualClock{}
	}
	if err := apply(&request, &created); err != nil {
		return nil, err
	}
	about, err := a.Directory.Create(c.Context(), created)
	if errors.Is(err, core.AlreadyExists) && c.Header.Get("If-None-Match") != "*" {
		about, changed := a.Directory.Change(c.Context(), name, func(n *core.Namespace) error { return apply(&request, n) })
		if core.CodeOf(changed) != core.NotFound { // NotFound: the namespace does not exist, so another one has the host
			return a.describe(c, &about, true), changed
		}
	}
	c.status = http.StatusCreated
	return a.describe(c, &about, true), err
}

func apply(request *api.NamespaceRequest, n *core.Namespace) error {
	if request.AllowFaults != nil && *request.AllowFaults != n.AllowFaults {
		return core.Refuse(core.NotAllowed, "allowFaults cannot be changed: create another namespace with the value that you need.")
	}
	if request.VirtualTime != nil && *request.VirtualTime != (n.Clock != nil) {
		return core.Refuse(core.NotAllowed, "virtualTime cannot be changed: create another namespace with the value that you need.")
	}
	if request.Hosts != nil {
		n.Hosts = *request.Hosts
	}
	if q := request.Quotas; q != nil {
		n.Quotas = core.NamespaceQuotas(*q)
	}
	if request.Policies == nil {
		return nil
	}
	n.Policies = nil
	for _, p := range *request.Policies {
		rights, err := core.ParseRights(p.Rights)
		if err != nil {
			return err
		}
		n.Policies = append(n.Policies, core.AccessRule{Name: p.Name, PrimaryKey: p.PrimaryKey, SecondaryKey: p.SecondaryKey, Rights: rights})
	}
	return nil
}

func (a *API) list(c *call, operator bool) (any, error) {
	if !operator {
		about, err := a.Directory.Describe(c.Context(), c.id.Namespace())
		if err != nil {
			return nil, err
		}
		return a.page(c, []namespaces.About{about}, "")
	}
	top, err := c.number("top", defaultTop, 1, maxTop)
	if err != nil {
		return nil, err
	}
	all, next := a.Directory.All(c.URL.Query().Get("after"), top+1), ""
	if len(all) > top {
		all, next = all[:top], all[top-1].Name
	}
	return a.page(c, all, next)
}

func (a *API) page(c *call, all []namespaces.About, next string) (any, error) {
	page := api.NamespaceList{Namespaces: []api.Namespace{}, Next: next}
	count := c.URL.Query().Get("entities") == "true"
	for i := range all {
		n := a.describe(c, &all[i], false)
		if served := a.Served(all[i].ID); count && served != nil {
			entities, megabytes, err := served.Broker.Population(c.Context(), "")
			if err != nil {
				return nil, err
			}
			n.Entities, n.Megabytes = &entities, &megabytes
		}
		page.Namespaces = append(page.Namespaces, n)
	}
	return page, nil
}

func (a *API) describe(c *call, about *namespaces.About, whole bool) api.Namespace {
	n := api.Namespace{
		Name: about.Name, Kind: api.Created, Hosts: namespaces.HostsOf(&about.Namespace), Connections: about.Connections, Quotas: api.Quotas(about.Quotas), VirtualTime: about.Clock != nil, AllowFaults: about.AllowFaults,
	}
	switch {
	case about.Own:
		n.Kind = api.Own
	case about.Fixed:
		n.Kind = api.Configured
	default:
		n.CreatedAt, n.ModifiedAt = about.CreatedAt, about.ModifiedAt
	}
	if !whole {
		return n
	}
	for _, p := range about.Policies {
		policy := api.Policy{Name: p.Name, Rights: p.Rights.String()}
		if !about.Fixed { // do not show keys from the configuration
			policy.PrimaryKey, policy.SecondaryKey = p.PrimaryKey, p.SecondaryKey
			policy.ConnectionString = a.byPolicy(c.Request, &p)
			policy.HostConnectionString = byHost(c.Request, &p, n.Hosts[len(n.Hosts)-1])
		}
		n.Policies = append(n.Policies, policy)
	}
	return n
}

// byPolicy returns a connection string for any host of the gateway: its policy selects the
// namespace. The string has the request's host, but localhost for the namespace's own host below
// .localhost. If the request was sent to another namespace's host, byPolicy returns "".
func (a *API) byPolicy(r *http.Request, p *core.AccessRule) string {
	if !a.Directory.Answers(r.Host) {
		return connectionString(r, r.Host, p)
	}
	if strings.HasSuffix(core.FoldHost(r.Host), ".localhost") {
		return byHost(r, p, "localhost")
	}
	return ""
}

func byHost(r *http.Request, p *core.AccessRule, host string) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		host = net.JoinHostPort(host, port)
	}
	return connectionString(r, host, p)
}

func connectionString(r *http.Request, host string, p *core.AccessRule) string {
	text := "Endpoint=sb://" + host + ";SharedAccessKeyName=" + p.Name + ";SharedAccessKey=" + p.PrimaryKey
	if r.TLS == nil {
		text += ";UseDevelopmentEmulator=true"
	}
	return text
}

func (a *API) ownClock(c *call) (any, error) { return a.clock(c, c.id.Namespace()) }

// clock shows or moves the time of a namespace. It answers after everything due by the new time.
func (a *API) clock(c *call, name string) (any, error) {
	switch c.Method {
	case http.MethodGet:
	case http.MethodPut:
		move, err := moveOf(c)
		if err != nil {
			return nil, err
		}
		if err := a.Directory.MoveClock(c.Context(), name, move); err != nil {
			return nil, err
		}
	default:
		return nil, wrongMethod("GET, PUT")
	}
	clock, now, err := a.Directory.Clock(c.Context(), name)
	if err != nil {
		return nil, err
	}
	at := clock.At(now)
	return api.Clock{Namespace: name, Now: at, Frozen: !clock.Frozen.IsZero(), Ahead: at.Sub(now).Round(time.Millisecond).String()}, nil
}

func moveOf(c *call) (func(core.VirtualClock, time.Time) (core.VirtualClock, error), error) {
	var request api.ClockRequest
	if err := c.read(&request, `{"freeze": true}, {"advance": "5m"}, {"set": "2030-01-01T00:00:00Z"} or {"resume": true}`); err != nil {
		return nil, err
	}
	var by time.Duration
	switch {
	case request == api.ClockRequest{}:
		return nil, core.Refuse(core.InvalidArgument, "The body must have at least one of 'freeze', 'resume', 'advance' and 'set'.")
	case request.Freeze && request.Resume:
		return nil, core.Refuse(core.InvalidArgument, "Use 'freeze' or 'resume', not both.")
	case request.Advance != "" && request.Set != nil:
		return nil, core.Refuse(core.InvalidArgument, "Use 'advance' or 'set', not both.")
	case request.Advance != "":
		var err error
		if by, err = core.ParseAnyDuration(request.Advance); err != nil {
			return nil, core.Refuse(core.InvalidArgument, "'advance' is %.40q: it must be a duration such as 90s, 5m, 36h, PT5M or P14D.", request.Advance)
		}
	}
	return func(clock core.VirtualClock, now time.Time) (core.VirtualClock, error) {
		switch {
		case request.Freeze:
			clock = clock.Freeze(now)
		case request.Resume:
			clock = clock.Resume(now)
		}
		if request.Set != nil {
			return clock.Set(now, *request.Set)
		}
		return clock.Advance(now, by)
	}, nil
}

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
	f := api.Fault{Rule: s.Rule, Life: s.Life.String(), Matched: s.Matched, Met: s.Met, Ends: s.Ends}
	if s.Delay > 0 {
		f.Delay = s.Delay.String()
	}
	return f
}
