package main

import (
	"crypto/x509"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
)

// hostNames protects a gateway that accepts the public development key from DNS rebinding. In this
// attack, the name of a web page resolves to this machine, and browsers then let the page call the
// gateway. HTTP clients must therefore use a host name that no owner of a web page controls.
type hostNames struct {
	own         []string // names of this gateway in lower case
	namespaces  answers
	certificate func() *x509.Certificate
	private     bool // accept names of local networks, because other machines can connect
}

// privateDomains do not exist in public DNS, so no owner of a web page can have a name in them.
// Private DNS uses them for containers' hosts, Kubernetes services and local networks.
var privateDomains = []string{".internal", ".local", ".svc", ".test", ".lan", ".home.arpa"}

type answers interface{ Answers(host string) bool }

func newHostNames(c *config.Config, cert *certificate, others answers, addresses ...string) *hostNames {
	n := &hostNames{namespaces: others, private: slices.ContainsFunc(addresses, func(address string) bool { return !listen.IsLoopback(address) })}
	for _, name := range append([]string{c.Namespace, c.Namespace + ".servicebus.windows.net"}, cert.hosts...) {
		n.own = append(n.own, strings.ToLower(name))
	}
	if cert.ca == nil {
		n.certificate = func() *x509.Certificate { return cert.own.Load().Leaf }
	}
	return n
}

func (n *hostNames) check(host string) error {
	if n.has(host) {
		return nil
	}
	return core.Refuse(core.NotAllowed, "While the gateway accepts the public development key, it refuses the host '%.255s': otherwise a web page could reach the gateway through a host name of the page's owner (DNS rebinding). "+
		"Use localhost or an address, or add the host to the setting tls.hosts, or give the policy %s a key of your own.", host, config.DevPolicy)
}

// guard refuses requests whose host is not a name of the gateway. It is for paths without a key.
func (n *hostNames) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !n.has(r.Host) {
			http.Error(w, "Use localhost or an address, or add the host to the setting tls.hosts.", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (n *hostNames) has(host string) bool {
	name := core.FoldHost(host)
	switch _, err := netip.ParseAddr(name); {
	case name == "", // browsers always send a host
		err == nil, // DNS rebinding needs a name, not an IP address
		name == "localhost", strings.HasSuffix(name, ".localhost"), slices.Contains(n.own, name),
		n.namespaces != nil && n.namespaces.Answers(name),
		n.certificate != nil && n.certificate().VerifyHostname(name) == nil:
		return true
	case n.private:
		return !strings.Contains(name, ".") || hasSuffix(name, privateDomains...)
	}
	return hasSuffix(name, ".internal") // containers use such names for the machine that they run on
}

func hasSuffix(s string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(s, suffix) })
}
