package bridges

import "net/http"

// Hosts are the names by which a request called the gateway, as core.Authority
// takes them: its Host, then what TLS was asked for.
func Hosts(r *http.Request) []string {
	if r.TLS != nil && r.TLS.ServerName != "" {
		return []string{r.Host, r.TLS.ServerName}
	}
	return []string{r.Host}
}
