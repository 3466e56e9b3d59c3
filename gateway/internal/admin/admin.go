// Package admin is the administration API, which the gateway serves over HTTP below /$crosstown on
// every listener: metrics, counters, histories of messages, purges, deposits, connections,
// namespaces, remotes, plugins and pipelines.
package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/clients"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/bridges/webhooks"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/faults"
	"github.com/crosstown-mq/crosstown/core/intercept"
	"github.com/crosstown-mq/crosstown/core/namespaces"
	"github.com/crosstown-mq/crosstown/core/store/file"
	"github.com/crosstown-mq/crosstown/core/taps"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/history"
	"github.com/crosstown-mq/crosstown/gateway/internal/metrics"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

type Options struct {
	Directory *namespaces.Directory
	Broker    *intercept.Front
	Served    func(namespaceID string) *Served // returns nil if this gateway does not serve the namespace
	Clients   *clients.Registry
	History   *history.History
	Process   *Process
	Remotes   []Remote
	Pushes    func() []*webhooks.Push
	Hooks     func() []webhooks.Hook
	Plugins   *host.Host
	Stages    func() []broker.StageCounts
	Metrics   http.Handler
	Archive   func(context.Context) (*file.Archive, error)
	Logger    *slog.Logger
}

type Served struct {
	Broker   *broker.Broker
	Counters *metrics.Counters
	Metrics  http.Handler  // of this namespace only
	Faults   *faults.Rules // nil if the namespace does not allow faults
	Taps     *taps.Taps
}

type Remote struct {
	*remote.Remote
	Namespace string
}

type API struct {
	Options
	refusals *refusals.Log
}

func New(o Options) *API { return &API{Options: o, refusals: refusals.New()} }

type call struct {
	*http.Request
	w      http.ResponseWriter
	id     core.Identity
	path   string // the path below the endpoint, without slashes at its ends
	status int    // HTTP status of the answer; 0 means 200
	memory *fair.Share
}

const maxBody = 64 << 10

func (c *call) read(request any, example string) error {
	return c.readAtMost(maxBody, request, example)
}

// gather reads a body of up to most bytes. The body counts toward the memory of messages in
// progress.
func (c *call) gather(most int64) ([]byte, error) {
	body, err := bridges.Gather(c.w, c.Request, c.memory, fair.Arrival{Limit: most, Control: true})
	switch code := core.CodeOf(err); {
	case err == nil || code == core.Busy || code == core.QuotaExceeded:
		return body, err
	case errors.Is(err, fair.ErrTooLarge):
		return nil, core.Refuse(core.InvalidArgument, "The body has more than %d bytes, which is the limit.", most)
	case errors.Is(err, fair.ErrTooSlow):
		return nil, core.Refuse(core.InvalidArgument, "The body did not arrive completely in time: send it without long pauses.")
	}
	return nil, core.Refuse(core.InvalidArgument, "The body is incomplete.")
}

func (c *call) readAtMost(most int64, request any, example string) error {
	body, err := c.gather(most)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if !utf8.Valid(body) { // the decoder would replace invalid bytes
		return core.Refuse(core.InvalidArgument, "The body is not UTF-8, but JSON must be: encode it in UTF-8.")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(request)
	if err == nil && len(bytes.TrimSpace(body[decoder.InputOffset():])) > 0 {
		err = errors.New("text follows the JSON value")
	}
	if err != nil {
		return core.Refuse(core.InvalidArgument, "The body is not valid: %v. It must be JSON such as %s.", err, example)
	}
	return nil
}

// anyMethod is for endpoints that check the method themselves.
const anyMethod = "*"

// Routes returns the handlers by path. A path that ends in a slash matches all paths below it.
func (a *API) Routes() map[string]http.Handler {
	routes := map[string]http.Handler{}
	for _, e := range []struct {
		path    string
		methods string // as in the header Allow
		below   string // the methods of paths below path; "" if the endpoint does not serve them
		rights  func(core.Identity) error
		answer  func(*call) (any, error)
	}{
		{api.MetricsPath, http.MethodGet, "", nil, a.showMetrics},
		{api.CountersPath, http.MethodGet, "", nil, a.count},
		{api.ExplainPath, http.MethodGet, "", nil, a.explain},
		{api.DamagedPath, http.MethodGet, "", nil, a.damaged},
		{api.PurgePath, http.MethodPost, "", nil, a.purge},
		{api.DepositPath, http.MethodPost, "", nil, a.deposit},
		{api.TapPath, http.MethodGet, "", nil, a.tap},
		{api.MessagesPath, http.MethodPost, "", nil, a.move},
		{api.RulesPath, http.MethodPost, "", nil, a.testRules},
		{api.NamespacesPath, anyMethod, anyMethod, manages, a.namespaces},
		{api.StatusPath, http.MethodGet, "", manages, a.status},
		{api.ClockPath, anyMethod, "", manages, a.ownClock},
		{api.FaultsPath, anyMethod, anyMethod, manages, a.ownFaults},
		{api.EntitiesPath, http.MethodGet, "", nil, a.entities},
		{api.HistoryPath, http.MethodGet, http.MethodGet, nil, a.history},
		{api.ConnectionsPath, http.MethodGet, http.MethodDelete, manages, a.connections},
		{api.SchedulesPath, http.MethodGet, "GET, PUT, DELETE", manages, a.schedules},
		{api.SessionsPath, anyMethod, "", nil, a.sessions},
		{api.RemotesPath, http.MethodGet, "", manages, a.remotes},
		{api.PushesPath, http.MethodGet, "", manages, a.pushes},
		{api.HooksPath, http.MethodGet, "", manages, a.hooks},
		{api.PluginsPath, http.MethodGet, "GET, POST", a.operates, a.plugins},
		{api.PipelinesPath, http.MethodGet, "", a.operates, a.pipelines},
		{api.BackupPath, http.MethodGet, "", a.operates, a.backup},
	} {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			memory := a.Process.Messages.Share(nil)
			defer memory.Close()
			c := &call{Request: r, w: w, path: strings.Trim(r.URL.Path[len(e.path):], "/"), status: http.StatusOK, memory: memory}
			var err error
			if c.id, err = a.authenticate(r); err == nil {
				memory.Join(fair.Of(c.id))
			}
			if err == nil && e.rights != nil {
				err = e.rights(c.id)
			}
			methods := e.methods
			if c.path != "" && e.below != "" {
				methods = e.below
			}
			if err == nil && methods != anyMethod && !slices.Contains(strings.Split(methods, ", "), r.Method) {
				err = wrongMethod(methods)
			}
			var answer any
			if err == nil {
				answer, err = e.answer(c)
			}
			if err != nil {
				a.refuse(w, r, err)
				return
			}
			if h, ok := answer.(http.Handler); ok {
				h.ServeHTTP(w, r)
				return
			}
			write(w, c.status, answer)
		})
		if routes[e.path] = h; e.below != "" {
			routes[e.path+"/"] = h
		}
	}
	return routes
}

// authenticate accepts a token, the connection's certificate or, for GET, a policy's name and key
// as user and password, because monitoring systems cannot sign tokens. An operator may name another
// namespace in the header NamespaceHeader.
func (a *API) authenticate(r *http.Request) (core.Identity, error) {
	var grant core.Grant
	var err error
	token, ctx := r.Header.Get("Authorization"), bridges.CertifiedBy(r)
	if policy, key, ok := r.BasicAuth(); ok && r.Method == http.MethodGet {
		grant, err = a.Directory.Key(r.Context(), bridges.Hosts(r), policy, key)
	} else if token == "" && core.CertificateOf(ctx) == nil {
		err = core.Refuse(core.Unauthorized, "MissingToken: The request has no Authorization header: send a token in it, or use a client certificate.")
	} else {
		grant, err = a.Directory.Token(ctx, bridges.Hosts(r), token, "")
	}
	if namespace := r.Header.Get(api.NamespaceHeader); namespace != "" && err == nil {
		grant, err = a.Directory.Within(r.Context(), grant, namespace)
	}
	if err != nil {
		return nil, err
	}
	id := core.Identity{grant}
	return id, bridges.ProveIn(r.Context(), id)
}

func manages(id core.Identity) error { return id.Check(core.Manage, "", time.Now()) }

// operates refuses clients without the right Manage on the gateway's own namespace.
func (a *API) operates(id core.Identity) error {
	if a.isOperator(id) {
		return nil
	}
	if err := manages(id); err != nil {
		return err
	}
	return core.Refuse(core.Unauthorized, "Unauthorized access. 'Manage' on the gateway's own namespace is required, but the token is for the namespace '%s'.", id.Namespace())
}

func (a *API) isOperator(id core.Identity) bool { return a.Directory.Operator(id, time.Now()) }

func (a *API) served(id core.Identity) (*Served, error) {
	if n := a.Served(id.NamespaceID()); n != nil {
		return n, nil
	}
	return nil, core.Refuse(core.NotFound, "This gateway does not serve the namespace '%s'.", id.Namespace()) // it has been deleted in the meantime
}

// started returns the client's namespace. The client needs the right Manage.
func (a *API) started(c *call) (*Served, error) {
	if _, err := a.Broker.Namespace(c.Context(), c.id); err != nil {
		return nil, err
	}
	return a.served(c.id)
}

func (a *API) reach(c *call, address core.Address) (core.Entity, *Served, error) {
	e, err := a.Broker.Resolve(c.Context(), c.id, address)
	if err != nil {
		return e, nil, err
	}
	n, err := a.served(c.id)
	return e, n, err
}

// listened returns the queue or subscription in c.path, on which the client needs the right Listen.
// kinds and path describe valid paths in the error about another c.path.
func (a *API) listened(c *call, kinds, path string) (e core.Entity, n *Served, err error) {
	address, err := core.ParseAddress(c.path)
	if err != nil || c.path == "" || address.Sub != core.Main || address.Management {
		return e, nil, core.Refuse(core.NotFound, "'%s' is not %s: specify %[2]s with GET %[3]sNAME.", c.path, kinds, path)
	}
	if err := c.id.Check(core.Listen, address.Entity, time.Now()); err != nil {
		return e, nil, err
	}
	return a.reach(c, address)
}

func write(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // ignore the error: the client may have disconnected
}

type methodError struct {
	error
	methods string // as in the header Allow
}

func (e *methodError) Unwrap() error { return e.error }

func wrongMethod(methods string) error {
	return &methodError{core.Refuse(core.NotAllowed, "The method is not allowed for this resource: use %s.", methods), methods}
}

// refuse answers with an error. The client gets the text of a core.Refusal; for other errors, it
// gets only the tracking id under which the gateway logs them.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	tracking, code := refusals.NewTracking(), core.CodeOf(err)
	told := refusals.Told{Tracking: tracking, Code: code, Err: err, Stranger: code == core.Unauthorized}
	a.refusals.Write(a.Logger, told, "peer", r.RemoteAddr, "method", r.Method, "path", refusals.Cut(r.URL.Path))
	status, text := refusals.HTTPStatus(code), textOf(err)
	if method, ok := errors.AsType[*methodError](err); ok {
		status = http.StatusMethodNotAllowed
		w.Header().Set("Allow", method.methods)
	}
	switch code {
	case core.Unauthorized:
		w.Header().Set("WWW-Authenticate", "SharedAccessSignature")
	case core.Internal:
		text = fmt.Sprintf("An internal error occurred. The gateway's log has the details under the tracking id %s.", tracking)
	}
	write(w, status, api.Error{Error: text, Tracking: tracking})
}

func textOf(err error) string { return cmp.Or(core.TextOf(err), string(core.CodeOf(err))) }
