package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// emulatorReady is the line that starters of the official emulator's container wait for.
const emulatorReady = "Emulator Service is Successfully Up!"

// announce writes what a newcomer needs to connect.
func announce(ctx context.Context, w io.Writer, c *config.Config, listeners []net.Listener, s *store, cert *certificate, dev *devEndpoint, admin net.Listener) error {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s "+format+"\n", append([]any{label}, args...)...)
	}

	fmt.Fprintf(&b, "Crosstown %s, namespace %s\n", versionText(), c.Namespace)
	for _, ln := range listeners {
		line("listening", "%s  AMQP and HTTP, plain and with TLS", ln.Addr())
	}
	about := s.About(ctx)
	survival := "messages are lost at a restart"
	if about.Durable {
		survival = "messages survive a restart"
	}
	line("store", "%s, %s: %s", about.Engine, about.Detail, survival)
	for _, warning := range about.Warnings {
		line("warning", "%s", warning)
	}
	for _, note := range s.notes {
		line("note", "%s", note)
	}
	plain, secure := endpoints(listeners)
	policy := policyFor(c)
	line("connect", "Endpoint=sb://%s;%s;UseDevelopmentEmulator=true", plain, policy)
	line("with TLS", "Endpoint=sb://%s;%s", secure, policy)
	if cert.ca != "" {
		line("trust", "%s", cert.ca)
		line("", "(crosstown ca prints it; set SSL_CERT_FILE for Go, NODE_EXTRA_CA_CERTS for Node)")
	}
	if dev != nil {
		line("identity", "%s", dev.environment())
	}
	if c.HasConsole() {
		line("console", "http://%s/", plain)
	}
	if admin != nil {
		line("admin", "http://%s/metrics and /debug/pprof/, without a token", admin.Addr())
	}
	if c.Traces.Endpoint != "" {
		line("traces", "%s, of %.4g%% of the messages that bring none along", c.Traces.Endpoint, 100*c.Traces.Sample)
	}
	line("health", "http://%s/health", plain)
	if c.Emulator {
		b.WriteString(emulatorReady + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// endpoints picks the addresses to show: the first listener, and for TLS the one
// on the usual port, if there is one.
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

// policyFor writes the connection string's part about the policy: the first
// with the Manage right. Only the public development key is shown.
func policyFor(c *config.Config) string {
	all := c.AllPolicies()
	policy := all[0]
	for _, p := range all {
		if p.Rights&core.Manage != 0 {
			policy = p
			break
		}
	}
	key := "<key of " + policy.Name + ">"
	if policy.Key == config.DevKey {
		key = policy.Key
	}
	return "SharedAccessKeyName=" + policy.Name + ";SharedAccessKey=" + key
}
