package https

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

// The authentication schemes that are offered.
const (
	sharedAccessSignature = "SharedAccessSignature"
	bearer                = "Bearer"
)

// authorize proves the identity behind a request about node: an entity's path, or "" for the
// namespace. The broker checks the identity's rights.
func (b *Bridge) authorize(r *http.Request, node string) (core.Identity, error) {
	token, ctx := r.Header.Get("Authorization"), bridges.CertifiedBy(r) // the first value: an SDK that retries adds another
	if token == "" && core.CertificateOf(ctx) == nil {
		return nil, core.Refuse(core.Unauthorized, "MissingToken: The request has no Authorization header. Send 'Authorization: SharedAccessSignature sr=...&sig=...&se=...&skn=...'.")
	}
	scheme, _, _ := strings.Cut(token, " ")
	isSignature := strings.EqualFold(scheme, sharedAccessSignature)
	isWebToken := strings.EqualFold(scheme, bearer) || strings.HasPrefix(token, "eyJ") // eyJ begins JSON in base64: an SDK omits the scheme
	if token != "" && !isSignature && !isWebToken {
		return nil, core.Refuse(core.Unauthorized, "MalformedToken: The authorization scheme '%.30s' is not supported. Use 'SharedAccessSignature sr=...&sig=...&se=...&skn=...', or 'Bearer' with a JSON web token.", scheme)
	}
	grant, err := b.auth.Token(ctx, bridges.Hosts(r), token, "")
	if err != nil {
		return nil, err
	}
	if err := prove(r, core.Identity{grant}); err != nil {
		return nil, err
	}
	if err := bridges.ProveIn(r.Context(), core.Identity{grant}); err != nil {
		return nil, err
	}
	segments, err := splitPath(r.URL)
	if err != nil {
		return nil, err
	}
	if scope := scopeOf(grant.Scope, core.FoldName(strings.Join(segments, "/")), core.FoldName(node)); scope != grant.Scope {
		// The scope may also be the name of an entity: then the token is for this entity alone.
		switch _, err := b.front.Resolve(r.Context(), core.Identity{grant}, core.At(grant.Scope)); core.CodeOf(err) {
		case core.NotFound:
			grant.Scope = scope
		case "":
		default:
			return nil, err
		}
	}
	return core.Identity{grant}, nil
}

// visitKey is the key of the visit in a request's context.
type visitKey struct{}

// visit is what the gateway knows about a request besides the request itself.
type visit struct {
	proven bool         // the request has a proven identity
	memory *fair.Waiter // memory for the request's body and its answer
}

// visited returns the request with a visit, whose memory must be closed.
func (b *Bridge) visited(r *http.Request) (*http.Request, *visit) {
	v := &visit{memory: b.opts.Budget.Waiter(nil)}
	return r.WithContext(context.WithValue(r.Context(), visitKey{}, v)), v
}

func visitOf(r *http.Request) *visit {
	v, _ := r.Context().Value(visitKey{}).(*visit)
	return v
}

// prove notes that the request has a proven identity, and charges large headers.
func prove(r *http.Request, id core.Identity) error {
	v := visitOf(r)
	if v == nil {
		return nil
	}
	v.proven = true
	v.memory.Join(fair.Of(id))
	if n := sizeOf(r.Header); n > smallHeader && !v.memory.Take(n) {
		return v.memory.Refuse(n)
	}
	return nil
}

// smallHeader is the size of a header that fair.Requests includes.
const smallHeader = 8 << 10

// sizeOf returns approximately how much memory a header takes.
func sizeOf(h http.Header) (n int64) {
	for name, values := range h {
		n += int64(100 + len(name))
		for _, v := range values {
			n += int64(16 + len(v))
		}
	}
	return n
}

func isProven(r *http.Request) bool {
	v := visitOf(r)
	return v != nil && v.proven
}

// scopeOf returns the scope that a token has for one request. SDKs sign the URL that they call,
// such as queue/messages/head or $Resources/Queues: a scope below the node that the request is
// about counts as the node if the scope covers the request. request is the path whose segments were
// dispatched. All three arguments are folded.
func scopeOf(scope, request, node string) string {
	if core.IsWithin(request, scope) && core.IsWithin(scope, node) {
		return node
	}
	return scope
}

// preflightLife is how long a browser may remember that a page may send a request.
const preflightLife = 10 * time.Minute

// methodOf returns the method of a request or, for a preflight (Fetch §3.2.2), of the request that
// is to follow.
func methodOf(r *http.Request) string {
	if asked := r.Header.Get("Access-Control-Request-Method"); isPreflight(r) {
		return asked
	}
	return r.Method
}

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// shareWithPage lets a page of an origin in the list read the answer, and answers or refuses a
// preflight. User properties are headers of any name, so all headers may be sent and read.
// Access-Control-Allow-Credentials is never sent: a page proves its identity by the Authorization
// header, and no cookie or client certificate counts. Only preflights are refused: without one, a
// page cannot add an Authorization header.
func (b *Bridge) shareWithPage(w http.ResponseWriter, r *http.Request, methods string) (answered bool, err error) {
	h, origin := w.Header(), r.Header.Get("Origin")
	if len(b.origins) > 0 {
		h.Add("Vary", "Origin") // for caches
	}
	listed := origin != "" && b.origins.Has(origin)
	if listed {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "*")
	}
	if !isPreflight(r) {
		return false, nil
	}
	on(w, routePreflight)
	if !listed {
		return false, &statusError{status: http.StatusForbidden, text: fmt.Sprintf("The origin %.200s may not send this request: add it to the setting cors-origins.", origin)}
	}
	h.Set("Access-Control-Allow-Methods", methods)
	if headers := r.Header.Get("Access-Control-Request-Headers"); headers != "" {
		h.Set("Access-Control-Allow-Headers", headers)
	}
	h.Set("Access-Control-Max-Age", strconv.Itoa(int(preflightLife.Seconds())))
	_ = respond(w, http.StatusNoContent, nil)
	return true, nil
}
