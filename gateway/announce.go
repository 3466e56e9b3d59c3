package main

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
)

// Programs that start the official emulator's container wait until it prints emulatorReady.
const emulatorReady = "Emulator Service is Successfully Up!"

type announcement struct {
	*server
	about core.About
}

func (a *announcement) connections() (plain, secure, address string) {
	address, secured := endpoints(a.listeners)
	policy := policyFor(a.c)
	return fmt.Sprintf("Endpoint=sb://%s;%s;UseDevelopmentEmulator=true", address, policy), fmt.Sprintf("Endpoint=sb://%s;%s", secured, policy), address
}

func (a *announcement) text() string {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s "+format+"\n", append([]any{label}, args...)...)
	}

	fmt.Fprintf(&b, "Crosstown %s, namespace %s\n", versionText(), a.c.Namespace)
	for _, ln := range a.listeners {
		line("listening", "%s  AMQP and HTTP, %s", ln.Addr(), a.security(ln))
	}
	public := slices.ContainsFunc(a.listeners, func(ln net.Listener) bool { return !listen.IsLoopback(ln.Addr().String()) })
	if a.c.RequireTLS == "off" && public {
		line("warning", "clients on other machines may connect without TLS, and reveal their keys and messages to the network (require-tls: off)")
	}
	survival := "messages are lost at a restart"
	if a.about.Durable {
		survival = "messages survive a restart"
	}
	line("store", "%s, %s: %s", a.about.Engine, a.about.Detail, survival)
	for _, warning := range a.about.Warnings {
		line("warning", "%s", warning)
	}
	if setting := memorySetting(a.c); a.c.Store == "memory" && !memory.IsLimited(setting) {
		machine, _ := memory.Available(setting)
		line("warning", "The store may use this machine's memory (%d MiB). When 80 %% of it is in use, the gateway refuses messages as busy. --memory sets a lower limit.", machine>>20)
	}
	if assumption := a.c.Assumption(); assumption != "" {
		line("entities", "%s", assumption)
	}
	plain, secure, address := a.connections()
	scheme := "http"
	if a.c.MayBePlain(local(a.listeners[0])) && listen.IsLoopback(address) { // only clients on this machine may connect without TLS
		line("connect", "%s", plain)
	} else {
		scheme, address = "https", strings.TrimPrefix(strings.SplitN(secure, ";", 2)[0], "Endpoint=sb://")
	}
	line("with TLS", "%s", secure)
	if a.c.LacksDevKey() {
		line("no dev key", "the gateway refuses the public development key, because a policy is configured and other machines may connect (--dev-key-anywhere accepts the key)")
	}
	for _, k := range a.newKeys {
		line("new key", "of policy %s: %s", k.Policy, k.Key)
		line("", "(the key is stored in %s, and not printed again)", k.File)
	}
	if a.certificate.caFile != "" {
		line("trust", "%s", a.certificate.caFile)
		line("", "(crosstown ca prints this certificate; set SSL_CERT_FILE for Go and .NET, NODE_EXTRA_CA_CERTS for Node)")
	}
	if a.dev != nil {
		line("identity", "%s", a.dev.environment())
	}
	if a.c.HasConsole() {
		line("console", "%s://%s/", scheme, address)
	} else if a.c.Emulator {
		line("console", "off, because other machines may connect (CROSSTOWN_CONSOLE=on turns the console on)")
	}
	if a.admin != nil {
		line("admin", "http://%s/metrics and /debug/pprof/, without a token", a.admin.Addr())
	}
	if a.c.Traces.Endpoint != "" {
		line("traces", "%s, for %.4g%% of the messages without a trace context", a.c.Traces.Endpoint, 100*a.c.Traces.Sample)
	}
	line("health", "%s://%s/health", scheme, address)
	if a.c.Emulator {
		b.WriteString(emulatorReady + "\n")
	}
	return b.String()
}

func (a *announcement) security(ln net.Listener) string {
	public := !listen.IsLoopback(ln.Addr().String())
	switch {
	case a.c.RequireTLS == "on", a.c.RequireTLS == "auto" && !a.c.MayBePlain(local(ln)):
		return "over TLS only"
	case a.c.RequireTLS == "auto" && public:
		return "over TLS; plain from this machine only"
	}
	return "plain and with TLS"
}

func local(ln net.Listener) string {
	host, port, _ := net.SplitHostPort(ln.Addr().String())
	if net.ParseIP(host).IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// endpoints returns the address of the first listener as plain, and the address for TLS as secure:
// the listener on port 5671 or, if there is none, also the first listener.
func endpoints(listeners []net.Listener) (plain, secure string) {
	for _, ln := range listeners {
		host, port, _ := net.SplitHostPort(ln.Addr().String())
		if ip := net.ParseIP(host); ip.IsUnspecified() || ip.IsLoopback() {
			host = "localhost"
		}
		address := net.JoinHostPort(host, port)
		if plain == "" {
			plain, secure = address, address
		}
		if port == "5671" {
			secure = address
		}
	}
	return plain, secure
}

// policyFor returns the policy and key of a connection string. It prefers the first policy with a
// key and Manage to the first with a key. It shows no key except the public development key.
func policyFor(c *config.Config) string {
	keyed := slices.DeleteFunc(slices.Clone(c.AllPolicies()), func(p config.Policy) bool { return p.Certificate != "" })
	if len(keyed) == 0 {
		return "SharedAccessKeyName=<no policy has a key>"
	}
	policy := keyed[max(0, slices.IndexFunc(keyed, func(p config.Policy) bool { return p.Rights&core.Manage != 0 }))]
	key := "<key of " + policy.Name + ">"
	if policy.Key == config.DevKey {
		key = policy.Key
	}
	return "SharedAccessKeyName=" + policy.Name + ";SharedAccessKey=" + key
}
