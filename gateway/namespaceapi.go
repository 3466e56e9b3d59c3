package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/namespaces"
	"github.com/crosstown-mq/crosstown/gateway/internal/tenancy"
)

const (
	maxRequest  = 64 << 10 // bytes of a request about a namespace
	defaultPage = 100      // of a list
	maxPage     = 1000
)

// namespaceAPI creates, shows, changes and deletes namespaces. Clients with Manage on the
// gateway's own namespace may do all of it; clients with Manage on another one may see and reset
// that one, and rotate its keys.
type namespaceAPI struct {
	adminAPI
	served *namespaceServer
}

func (d *namespaceAPI) routes(routes map[string]http.Handler) {
	routes[tenancy.Path], routes[tenancy.Path+"/"] = d, d
}

// ServeHTTP answers one request.
func (d *namespaceAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, answer, err := d.answer(r)
	d.replyWith(w, r, status, answer, err)
}

func (d *namespaceAPI) answer(r *http.Request) (status int, answer any, err error) {
	id, err := d.identity(r)
	if err != nil {
		return 0, nil, err
	}
	if err := id.Check(core.Manage, "", time.Now()); err != nil {
		return 0, nil, err
	}
	name, rest, _ := strings.Cut(strings.Trim(r.URL.Path[len(tenancy.Path):], "/"), "/")
	operator := d.directory.Operator(id, time.Now())
	own := core.FoldName(name) == core.FoldName(id.Namespace())
	switch {
	case name == "" && r.Method == http.MethodGet:
		answer, err = d.list(r, id, operator)
	case name == "":
		err = useMethods(http.MethodGet, "The namespaces can be got; one of them is made with PUT %s/NAME.", tenancy.Path)
	case !operator && !own:
		err = core.Refuse(core.Unauthorized, "Unauthorized access. 'Manage' on the gateway's own namespace is required for what concerns others than '%s'.", id.Namespace())
	case rest == "":
		status, answer, err = d.one(r, name, operator)
		if core.CodeOf(err) == core.NotAllowed && methodsOf(err) == "" { // it is of the configuration
			err = &methodError{err, http.MethodGet}
		}
		return status, answer, err
	default:
		answer, err = d.act(r, name, rest)
	}
	return http.StatusOK, answer, err
}

// one answers what is asked of a namespace itself.
func (d *namespaceAPI) one(r *http.Request, name string, operator bool) (status int, answer any, err error) {
	switch {
	case r.Method == http.MethodGet:
		about, err := d.directory.Describe(r.Context(), name)
		return http.StatusOK, d.describe(r, &about, true), err
	case !operator && (r.Method == http.MethodPut || r.Method == http.MethodDelete):
		return 0, nil, core.Refuse(core.Unauthorized, "Unauthorized access. 'Manage' on the gateway's own namespace is required to change or delete namespaces.")
	case r.Method == http.MethodPut:
		return d.put(r, name)
	case r.Method == http.MethodDelete:
		return http.StatusOK, map[string]string{"deleted": name}, d.directory.Delete(r.Context(), name)
	}
	return 0, nil, useMethods("GET, PUT, DELETE", "A namespace can be got, made or changed with PUT, and deleted.")
}

// act does something to a namespace.
func (d *namespaceAPI) act(r *http.Request, name, what string) (any, error) {
	if r.Method != http.MethodPost {
		return nil, useMethods(http.MethodPost, "It is done with POST.")
	}
	if what == tenancy.Reset {
		return map[string]string{"reset": name}, d.directory.ResetNamed(r.Context(), name)
	}
	policy, ok := strings.CutPrefix(what, "policies/")
	if policy, ok2 := strings.CutSuffix(policy, "/"+tenancy.Rotate); ok && ok2 {
		about, err := d.directory.Rotate(r.Context(), name, policy)
		return d.describe(r, &about, true), err
	}
	return nil, core.Refuse(core.NotFound, "A namespace is reset at %s/NAME/reset, and a key rotated at %[1]s/NAME/policies/POLICY/rotate.", tenancy.Path)
}

// put makes a namespace, or changes it. With If-None-Match: * it only makes one.
func (d *namespaceAPI) put(r *http.Request, name string) (status int, answer any, err error) {
	request, err := readRequest(r)
	if err != nil {
		return 0, nil, err
	}
	fresh := core.Namespace{Name: name}
	if err := apply(request, &fresh); err != nil {
		return 0, nil, err
	}
	about, err := d.directory.Create(r.Context(), fresh)
	if errors.Is(err, core.AlreadyExists) && r.Header.Get("If-None-Match") != "*" {
		about, changed := d.directory.Change(r.Context(), name, func(n *core.Namespace) error { return apply(request, n) })
		if core.CodeOf(changed) != core.NotFound { // the host may have been what exists
			return http.StatusOK, d.describe(r, &about, true), changed
		}
	}
	return http.StatusCreated, d.describe(r, &about, true), err
}

func readRequest(r *http.Request) (*tenancy.Request, error) {
	request := &tenancy.Request{}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	if err != nil || len(body) > maxRequest {
		return nil, core.Refuse(core.InvalidArgument, "The body could not be read: it may have %d bytes.", maxRequest)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return request, nil
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(request); err != nil {
		return nil, core.Refuse(core.InvalidArgument, `The body is no JSON like {"hosts": ["a.example"], "policies": [{"name": "app", "rights": "Send,Listen"}], "quotas": {"maxEntities": 10}}: %v.`, err)
	}
	return request, nil
}

// apply sets what a request gives in a namespace.
func apply(request *tenancy.Request, n *core.Namespace) error {
	if request.Hosts != nil {
		n.Hosts = *request.Hosts
	}
	if q := request.Quotas; q != nil {
		n.Quotas = core.NamespaceQuotas{MaxEntities: q.MaxEntities, MaxConnections: q.MaxConnections, MaxSizeMegabytes: q.MaxSizeMegabytes}
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

// list answers with a page: of all to an operator, else of the own one.
func (d *namespaceAPI) list(r *http.Request, id core.Identity, operator bool) (any, error) {
	if !operator {
		about, err := d.directory.Describe(r.Context(), id.Namespace())
		if err != nil {
			return nil, err
		}
		return d.page(r, []namespaces.About{about}, "")
	}
	top := defaultPage
	if text := r.URL.Query().Get("top"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return nil, core.Refuse(core.InvalidArgument, "top is %.20q: give 1 to %d.", text, maxPage)
		}
		top = n
	}
	all, next := d.directory.All(r.URL.Query().Get("after"), top+1), ""
	if len(all) > top {
		all, next = all[:top], all[top-1].Name
	}
	return d.page(r, all, next)
}

// page is a page of a list, which counts entities where the request says so.
func (d *namespaceAPI) page(r *http.Request, all []namespaces.About, next string) (any, error) {
	page := tenancy.List{Namespaces: []tenancy.Namespace{}, Next: next}
	count := r.URL.Query().Get("entities") == "true"
	for i := range all {
		n := d.describe(r, &all[i], false)
		if t := d.served.of(all[i].ID); count && t != nil {
			entities, megabytes, err := t.broker.Population(r.Context())
			if err != nil {
				return nil, err
			}
			n.Entities, n.Megabytes = &entities, &megabytes
		}
		page.Namespaces = append(page.Namespaces, n)
	}
	return page, nil
}

// describe is what is told of a namespace.
func (d *namespaceAPI) describe(r *http.Request, about *namespaces.About, whole bool) tenancy.Namespace {
	n := tenancy.Namespace{
		Name: about.Name, Kind: tenancy.Created, Hosts: namespaces.HostsOf(&about.Namespace), Connections: about.Connections,
		Quotas: tenancy.Quotas{MaxEntities: about.Quotas.MaxEntities, MaxConnections: about.Quotas.MaxConnections, MaxSizeMegabytes: about.Quotas.MaxSizeMegabytes},
	}
	switch {
	case about.Own:
		n.Kind = tenancy.Own
	case about.Fixed:
		n.Kind = tenancy.Configured
	default:
		n.CreatedAt, n.ModifiedAt = &about.CreatedAt, &about.ModifiedAt
	}
	if !whole {
		return n
	}
	for _, p := range about.Policies {
		told := tenancy.Policy{Name: p.Name, Rights: p.Rights.String()}
		if !about.Fixed { // those of a file are for its readers
			told.PrimaryKey, told.SecondaryKey = p.PrimaryKey, p.SecondaryKey
			told.ConnectionString = d.byPolicy(r, &p)
			told.HostConnectionString = byHost(r, &p, n.Hosts[len(n.Hosts)-1])
		}
		n.Policies = append(n.Policies, told)
	}
	return n
}

// byPolicy is a connection string with the host by which the request came. Where
// that would lead into another namespace it is localhost, if that is here.
func (d *namespaceAPI) byPolicy(r *http.Request, p *core.AccessRule) string {
	if !d.directory.Answers(r.Host) {
		return connectionString(r, r.Host, p)
	}
	if name, _, _ := splitHost(r.Host); strings.HasSuffix(strings.ToLower(name), ".localhost") {
		return byHost(r, p, "localhost")
	}
	return ""
}

// byHost is a connection string with a host, and the port by which the request came.
func byHost(r *http.Request, p *core.AccessRule, host string) string {
	if _, port, ok := splitHost(r.Host); ok {
		host = net.JoinHostPort(host, port)
	}
	return connectionString(r, host, p)
}

func splitHost(called string) (name, port string, ok bool) {
	name, port, err := net.SplitHostPort(called)
	if err != nil {
		return called, "", false
	}
	return name, port, true
}

func connectionString(r *http.Request, host string, p *core.AccessRule) string {
	text := "Endpoint=sb://" + host + ";SharedAccessKeyName=" + p.Name + ";SharedAccessKey=" + p.PrimaryKey
	if r.TLS == nil {
		text += ";UseDevelopmentEmulator=true"
	}
	return text
}
