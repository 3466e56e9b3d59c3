package https

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

func (b *Bridge) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff") // a sender chooses the content type of a message, so browsers must not guess another
	if b.opts.Answered == nil {
		b.route(w, r)
		return
	}
	a := &answer{ResponseWriter: w, r: r, tell: b.opts.Answered, route: "management"}
	b.route(a, r)
	a.end()
}

func (b *Bridge) route(w http.ResponseWriter, r *http.Request) {
	r = awaitBody(w, r)
	if b.opts.Plain != nil && r.TLS == nil && r.URL.Path != "/health" && !b.opts.Plain(r.RemoteAddr) {
		on(w, "misdirected")
		w.Header().Set("Upgrade", "TLS/1.2, HTTP/1.1") // RFC 2817 §4.2; RFC 9110 §15.5.22
		w.Header().Set("Connection", "Upgrade")
		b.refuse(w, r, &statusError{status: http.StatusUpgradeRequired, text: "This client must use TLS: call https://" + r.Host + "."})
		return
	}
	if b.opts.Host != nil {
		if err := b.opts.Host(r.Host); err != nil {
			on(w, "misdirected")
			b.refuse(w, r, &statusError{status: http.StatusMisdirectedRequest, text: core.TextOf(err)})
			return
		}
	}
	if path, h := b.mounted(r.URL.Path); h != nil {
		on(w, strings.TrimSuffix(path, "/"))
		h.ServeHTTP(w, r)
		return
	}
	if b.opts.Home != nil && wantsPage(r) {
		on(w, "page")
		b.opts.Home.ServeHTTP(w, r)
		return
	}
	if b.opts.Context != nil {
		r = r.WithContext(b.opts.Context(r))
	}
	v := &visit{memory: b.opts.Budget.Share(nil)}
	defer v.memory.Close()
	r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
	switch err := b.dispatch(w, r); {
	case err == nil:
	case r.Context().Err() != nil && !isTooSlow(err):
		b.log.Debug("request abandoned", "method", r.Method, "path", r.URL.Path, "err", err)
	default:
		b.refuse(w, r, err)
	}
}

// wantsPage reports whether a browser requests the root: other clients list entities there.
func wantsPage(r *http.Request) bool {
	return r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		strings.Contains(r.Header.Get("Accept"), "text/html") && !r.URL.Query().Has("api-version")
}

// dispatch calls the handler for the path. It returns an error only if no handler has answered.
func (b *Bridge) dispatch(w http.ResponseWriter, r *http.Request) error {
	segments, err := splitPath(r.URL)
	if err != nil {
		return core.Refuse(core.InvalidArgument, "The path is not valid: %v.", err)
	}
	if len(segments) == 1 && strings.EqualFold(segments[0], "health") {
		on(w, "health")
		return b.health(w, r)
	}
	// An entity's name may contain segments "messages". It ends before the last of these for which
	// path and method match a route. All other paths belong to the management API.
	methods, method := "", methodOf(r)
	for i := len(segments) - 1; i > 0; i-- {
		if !strings.EqualFold(segments[i], "messages") {
			continue
		}
		c := runtimeCall{entity: strings.Join(segments[:i], "/"), below: segments[i+1:]}
		route, ok := runtimeRoute(method, c.below)
		if ok {
			if answered, err := b.shareWithPage(w, r, route.methods); answered || err != nil {
				return err
			}
			return b.runtime(w, r, route, c)
		}
		methods = cmp.Or(methods, route.methods)
	}
	if methods != "" && !slices.Contains(atomMethods, r.Method) {
		return methodNotAllowed(r, methods)
	}
	err = b.atom(w, r, segments, methods)
	if core.CodeOf(err) == core.NotFound && methods != "" && r.Method == http.MethodDelete {
		return core.Refuse(core.InvalidArgument, "There is nothing to delete: '%.60s' is not a lock token, and the entity '%s' does not exist.", segments[len(segments)-1], strings.Join(segments, "/"))
	}
	return err
}

var atomMethods = []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete}

// runtimeCall is a request to the runtime API.
type runtimeCall struct {
	entity  string   // as in the path
	below   []string // the path's segments after /{entity}/messages
	id      core.Identity
	address core.Address
}

type route struct {
	name, methods string
	do            func(*Bridge, http.ResponseWriter, *http.Request, runtimeCall) error
}

// runtimeRoute reports whether the runtime API has method for a path; see runtimeCall.below.
func runtimeRoute(method string, below []string) (at route, ok bool) {
	switch {
	case len(below) == 0:
		return route{"send", "POST", (*Bridge).send}, method == http.MethodPost
	case len(below) == 1 && strings.EqualFold(below[0], "head"):
		return route{"receive", "POST, DELETE", (*Bridge).receive}, method == http.MethodPost || method == http.MethodDelete
	case len(below) == 1 && strings.EqualFold(below[0], "stream"):
		return route{"stream", "GET", (*Bridge).stream}, method == http.MethodGet
	case len(below) >= 2:
		_, err := core.ParseLockToken(below[len(below)-1])
		return route{"settle", "DELETE, PUT, POST", (*Bridge).settle}, method == http.MethodPost || err == nil && (method == http.MethodDelete || method == http.MethodPut)
	}
	return route{}, method == http.MethodPost
}

func (b *Bridge) runtime(w http.ResponseWriter, r *http.Request, at route, c runtimeCall) (err error) {
	if at.do == nil {
		return core.Refuse(core.NotFound, "The resource does not exist: receive at .../messages/head, settle at .../messages/{id}/{lock token}.")
	}
	on(w, at.name)
	if c.id, err = b.authorize(r, c.entity); err != nil {
		return err
	}
	if c.address, err = core.ParseAddress(c.entity); err == nil && c.address.Management {
		err = core.Refuse(core.NotFound, "The messaging entity '%s' could not be found.", c.entity)
	}
	if err != nil {
		return err
	}
	return at.do(b, w, r, c)
}

func (b *Bridge) mounted(path string) (string, http.Handler) {
	if len(b.exact) == 0 && len(b.prefix) == 0 {
		return "", nil
	}
	path = strings.ToLower(path)
	if h := b.exact[path]; h != nil {
		return path, h
	}
	for i := len(path); i > 0; i-- {
		if h := b.prefix[path[:i]]; path[i-1] == '/' && h != nil {
			return path[:i], h
		}
	}
	return "", nil
}

// splitPath decodes each segment of a path by itself, so that a %2F in a message id does not split
// the id. It ignores slashes at both ends.
func splitPath(u *url.URL) ([]string, error) {
	path := strings.Trim(u.EscapedPath(), "/")
	if path == "" {
		return nil, nil
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		decoded, err := url.PathUnescape(s)
		if err != nil {
			return nil, err
		}
		segments[i] = decoded
	}
	return segments, nil
}

func (b *Bridge) origin(r *http.Request) string {
	switch {
	case b.opts.PublicURL != "":
		return b.opts.PublicURL
	case r.TLS != nil:
		return "https://" + r.Host
	default:
		return "http://" + r.Host
	}
}

func escapePath(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// health answers whether messages can be sent. It requires no authorization.
func (b *Bridge) health(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return methodNotAllowed(r, "GET, HEAD")
	}
	ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
	defer cancel()
	type store struct {
		Engine   string   `json:"engine"`
		Durable  bool     `json:"durable"`
		Skew     string   `json:"clockSkew"`
		Warnings []string `json:"warnings,omitempty"` // why messages might be lost, and what to do about it
	}
	answer := struct {
		Status  string         `json:"status"`
		Reason  string         `json:"reason,omitempty"`
		Store   *store         `json:"store,omitempty"`
		Details map[string]any `json:"details,omitempty"`
	}{Status: "healthy"}
	if b.opts.Details != nil {
		answer.Details = b.opts.Details()
	}
	status := http.StatusOK
	if about, err := b.front.Health(ctx); err == nil {
		answer.Store = &store{about.Engine, about.Durable, about.Skew.String(), about.Warnings}
		if b.opts.Degraded != nil {
			if answer.Reason = b.opts.Degraded(); answer.Reason != "" {
				answer.Status = "degraded"
			}
		}
	} else {
		status, answer.Status, answer.Reason = http.StatusServiceUnavailable, "unhealthy", err.Error()
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = respond(w, status, append(body, '\n'))
	return nil
}
