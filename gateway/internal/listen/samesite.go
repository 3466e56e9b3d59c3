package listen

import (
	"net/http"
	"net/url"
)

// SameSite refuses what a browser asks for on behalf of a page of another site:
// browsers say so in Sec-Fetch-Site (Fetch Metadata, §2.4), and older ones in Origin.
func SameSite(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
		foreign := site != "" && site != "same-origin" && site != "none"
		if origin != "" && site == "" {
			u, err := url.Parse(origin)
			foreign = err != nil || u.Host != r.Host
		}
		if foreign {
			http.Error(w, "Pages of other sites may not ask for this.", http.StatusForbidden)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		h.ServeHTTP(w, r)
	})
}
