package https

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

const (
	sharedAccessSignature = "SharedAccessSignature"
	bearer                = "Bearer"
)

// authorize returns the identity that a request proves, with its rights on node: the path of an
// entity, or "" for the namespace. The broker later checks these rights.
func (b *Bridge) authorize(r *http.Request, node string) (core.Identity, error) {
	token, ctx := r.Header.Get("Authorization"), bridges.CertifiedBy(r) // only the first header counts: an SDK that retries adds another one
	if token == "" && core.CertificateOf(ctx) == nil {
		return nil, core.Refuse(core.Unauthorized, "MissingToken: The request has no Authorization header. Send 'Authorization: SharedAccessSignature sr=...&sig=...&se=...&skn=...'.")
	}
	scheme, _, _ := strings.Cut(token, " ")
	isSignature := strings.EqualFold(scheme, sharedAccessSignature)
	isWebToken := strings.EqualFold(scheme, bearer) || strings.HasPrefix(token, "eyJ") // eyJ is the beginning of JSON in base64; one SDK omits the scheme
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
		// If the scope is the name of an entity, the token is for that entity alone.
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

type visitKey struct{}

type visit struct {
	proven bool
	memory *fair.Share
}

func visitOf(r *http.Request) *visit {
	v, _ := r.Context().Value(visitKey{}).(*visit)
	return v
}

// prove marks the request's identity as proven, and counts the memory of large headers.
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

// smallHeader is the size of headers that fair.Requests already includes.
const smallHeader = 8 << 10

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

// scopeOf returns the scope of a token for a request about node. SDKs sign the URL that they call,
// such as queue/messages/head or $Resources/Queues. A scope between node and request, the path of
// the request, therefore counts as node. The arguments must be lower-cased.
func scopeOf(scope, request, node string) string {
	if core.IsWithin(request, scope) && core.IsWithin(scope, node) {
		return node
	}
	return scope
}

const preflightLife = 10 * time.Minute

// methodOf returns the method of r or, for a preflight (Fetch §3.2.2), of the request after it.
func methodOf(r *http.Request) string {
	if asked := r.Header.Get("Access-Control-Request-Method"); isPreflight(r) {
		return asked
	}
	return r.Method
}

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// shareWithPage lets web pages of listed origins read the response, and answers or refuses
// preflights. User properties are headers of any name, so it allows all headers. It never allows
// credentials such as cookies: pages send the Authorization header. A page can send that only after
// a preflight, so refusing preflights is enough.
func (b *Bridge) shareWithPage(w http.ResponseWriter, r *http.Request, methods string) (answered bool, err error) {
	h, origin := w.Header(), r.Header.Get("Origin")
	if len(b.origins) > 0 {
		h.Add("Vary", "Origin")
	}
	listed := origin != "" && b.origins.Has(origin)
	if listed {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "*")
	}
	if !isPreflight(r) {
		return false, nil
	}
	on(w, "preflight")
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
