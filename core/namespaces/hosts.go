package namespaces

import (
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

// ownDomains are domains in which each namespace has a host of its own name. Browsers and most
// systems resolve the second to this machine; clients that connect to another address than they
// name send the first.
var ownDomains = []string{".servicebus.windows.net", ".localhost"}

// HostsOf are the names of a namespace: those that follow from its name, then its configured ones.
// If there are none, the one that needs no DNS is last.
func HostsOf(n *core.Namespace) []string {
	var all []string
	for _, domain := range ownDomains {
		all = append(all, strings.ToLower(n.Name)+domain)
	}
	for _, h := range n.Hosts {
		all = append(all, foldHost(h))
	}
	return all
}

// foldHost is the host in a name by which a peer has called the gateway, which may have a scheme, a
// port and a path, in lower case.
func foldHost(called string) string {
	if _, rest, ok := strings.Cut(called, "://"); ok {
		called = rest
	}
	called, _, _ = strings.Cut(called, "/")
	return core.FoldHost(called)
}

// Answers reports whether a host, with or without port, is that of a namespace.
func (d *Directory) Answers(host string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byHost[foldHost(host)] != nil
}
