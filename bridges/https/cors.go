package https

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// preflightLife is how long a browser need not ask again whether a page may send a request.
const preflightLife = 10 * time.Minute

// methodOf is the method of a request or, of a preflight (Fetch §3.2.2), that of the request that
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
// header, and no cookie or client certificate counts. A request that is no preflight is not
// refused: a page can add an Authorization header only after a preflight.
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
		return false, &statusError{status: http.StatusForbidden, text: fmt.Sprintf("Pages of %.200s may not send this request: see the setting cors-origins.", origin)}
	}
	h.Set("Access-Control-Allow-Methods", methods)
	if headers := r.Header.Get("Access-Control-Request-Headers"); headers != "" {
		h.Set("Access-Control-Allow-Headers", headers)
	}
	h.Set("Access-Control-Max-Age", strconv.Itoa(int(preflightLife.Seconds())))
	_ = respond(w, http.StatusNoContent, nil)
	return true, nil
}
