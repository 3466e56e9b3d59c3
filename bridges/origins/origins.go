// Package origins decides which web pages may call a gateway, by the Origin header of the browser.
package origins

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// List has the origins that may call the gateway, besides its own host. See Check.
type List []string

func New(patterns []string) List {
	l := make(List, len(patterns))
	for i, p := range patterns {
		l[i] = strings.ToLower(p)
	}
	return l
}

func (l List) Has(origin string) bool {
	origin = strings.ToLower(origin)
	for _, pattern := range l {
		if ok, _ := path.Match(pattern, origin); ok || pattern == "*" {
			return true
		}
	}
	return false
}

// Allows accepts requests from listed origins, from the gateway's own host, and without an origin.
func (l List) Allows(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	if at, err := url.Parse(origin); err == nil && at.Host != "" && strings.EqualFold(at.Host, r.Host) {
		return true
	}
	return l.Has(origin)
}

// Check returns an error for an invalid pattern. A pattern is "*" for all origins, "null" for pages
// whose origin browsers hide, or SCHEME://HOST or SCHEME://HOST:PORT, in which "*" stands for any
// characters, as in https://*.example.com.
func Check(pattern string) error {
	if pattern == "*" || pattern == "null" {
		return nil
	}
	scheme, host, ok := strings.Cut(pattern, "://")
	if _, err := path.Match(pattern, ""); err != nil || !ok || scheme == "" || host == "" || strings.Contains(host, "/") {
		return fmt.Errorf("%q is not an origin: write SCHEME://HOST, or SCHEME://HOST:PORT for a port that is not the scheme's default, or *", pattern)
	}
	return nil
}
