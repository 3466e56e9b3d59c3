package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// A connection is followed step by step: the first that fails is the last, and has the remedy.
func TestDoctorFindsWhereAConnectionFails(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--config", write(t, "c.yaml", refusingEntities))
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	at := func(host string) string {
		return "Endpoint=sb://" + host + ";SharedAccessKeyName=x;SharedAccessKey=y;UseDevelopmentEmulator=true"
	}
	policy := func(name, key string) string {
		return strings.NewReplacer(config.DevPolicy, name, config.DevKey, key).Replace(g.connection)
	}
	local, ca := "--data="+g.data, "--ca="+filepath.Join(g.data, "ca.pem")
	for _, c := range []struct {
		name, connection string
		args             []string
		checks           string   // with their status
		says             []string // in what is printed
	}{
		{"all is well", g.connection, []string{"orders"}, "connection ok, name ok, port ok, TLS ok, gateway ok, store warn, clock of the store ok, clock ok, authorization ok, round trip ok", []string{"not used, because of UseDevelopmentEmulator=true", "the gateway is healthy, version " + versionText(), "policy " + config.DevPolicy + " is accepted", "a peek at orders finds 0 messages"}},
		{"with TLS", g.secure, []string{local}, "connection ok, name ok, port ok, TLS ok, gateway ok, store warn, clock of the store ok, clock ok, authorization ok", []string{"is trusted, until "}},
		{"by its authority", g.secure, []string{"--data=" + t.TempDir(), ca}, "connection ok, name ok, port ok, TLS ok, gateway ok, store warn, clock of the store ok, clock ok, authorization ok", nil},
		{"no such context", "", []string{"--context=none"}, "connection fail", []string{`context \"none\" does not exist`}},
		{"no connection string", "Endpoint=x", nil, "connection fail", []string{"CROSSTOWN_CONNECTION_STRING"}},
		{"no such host", at("nowhere.invalid:1"), nil, "connection ok, name fail", []string{"correct the host"}},
		{"nothing listens", at("localhost:" + freePort(t)), nil, "connection ok, name ok, port fail", []string{"connection refused", "run crosstown there to start a gateway"}},
		{"no trust", g.secure, []string{"--data=" + t.TempDir()}, "connection ok, name ok, port ok, TLS fail", []string{"unknown authority", "--ca FILE"}},
		{"no TLS there", strings.Replace(at(web.Listener.Addr().String()), ";UseDevelopmentEmulator=true", "", 1), nil, "connection ok, name ok, port ok, TLS fail", []string{"add UseDevelopmentEmulator=true"}},
		{"another program", at(web.Listener.Addr().String()), nil, "connection ok, name ok, port ok, TLS ok, gateway warn, authorization fail", []string{"the server is not a Crosstown gateway: it answers 404 Not Found"}},
		{"a wrong key", policy(config.DevPolicy, "wrong"), nil, "connection ok, name ok, port ok, TLS ok, gateway ok, store warn, clock of the store ok, clock ok, authorization fail", []string{"InvalidSignature", "check the policy of the connection string"}},
		{"a missing right", policy("sender", "s"), []string{"orders"}, "connection ok, name ok, port ok, TLS ok, gateway ok, store warn, clock of the store ok, clock ok, authorization ok, round trip fail", []string{"'Listen' claim(s) are required"}},
		{"no such entity", g.connection, []string{"nope"}, "connection ok, name ok, port ok, TLS ok, gateway ok, store warn, clock of the store ok, clock ok, authorization ok, round trip fail", []string{"'sb://localhost/nope' could not be found"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := g.try(t, c.connection, "", append([]string{"doctor", "--json"}, c.args...)...)
			var report struct {
				Findings []struct{ Check, Status string }
			}
			if err := json.Unmarshal([]byte(out), &report); err != nil {
				t.Fatalf("%v: %s%s", err, out, errs)
			}
			var checks []string
			for _, f := range report.Findings {
				checks = append(checks, f.Check+" "+f.Status)
			}
			if got := strings.Join(checks, ", "); got != c.checks {
				t.Errorf("checks: got %s\nwant %s\n%s", got, c.checks, out)
			}
			for _, want := range c.says {
				if !strings.Contains(out, want) {
					t.Errorf("lacks %q:\n%s", want, out)
				}
			}
			if failed := strings.Contains(c.checks, "fail"); failed != (code == exitFailure) || !failed && code != exitOK {
				t.Errorf("exit code %d: %s", code, errs)
			}
		})
	}
	code, out, errs := g.try(t, at("localhost:1"), "", "doctor")
	if code != exitFailure || !strings.Contains(out, "fail  port        dial tcp") || !strings.Contains(out, "\n                  remedy: run crosstown there") || !strings.HasSuffix(out, "\n2 ok, 0 warnings, 1 failed\n") || !strings.Contains(errs, "see above what to do") {
		t.Errorf("for people: exit code %d\n%s%s", code, out, errs)
	}
}

func TestHealthByContext(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--require-tls")
	g.command(t, "", "context", "save", "here", "--connection-string", g.secure, "--ca", filepath.Join(g.data, "ca.pem"))
	if got := g.command(t, "", "health", "--context=here"); !strings.Contains(got, `"status":"healthy"`) {
		t.Errorf("got %s", got)
	}
	if code, _, stderr := g.try(t, "", "", "health", g.address, "--context=here"); code != exitUsage || !strings.Contains(stderr, "HOST:PORT, --context") {
		t.Errorf("both: got %d %s", code, stderr)
	}
}
