package main

import (
	"net/http"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

func TestMethodsThatThereAreAreNamed(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--config", writeFile(t, "crosstown.yaml", theirs))
	a := &asks{T: t, g: g, policy: "RootManageSharedAccessKey", key: "SAS_KEY_VALUE"}
	for _, c := range []struct{ method, path, allow string }{
		{"DELETE", api.MetricsPath, "GET"},
		{"DELETE", api.RemotesPath, "GET"},
		{"DELETE", api.PluginsPath, "GET"},
		{"DELETE", api.PluginsPath + "/any", "GET, POST"},
		{"DELETE", api.PipelinesPath, "GET"},
		{"GET", api.PurgePath + "q", "POST"},
		{"POST", api.CountersPath + "q", "GET"},
		{"POST", api.ExplainPath + "q", "GET"},
		{"PUT", "/", "GET"},
		{"POST", "/set", "GET, PUT, DELETE"},
		{"GET", "/set/reset", "POST"},
		{"DELETE", "/set", "GET"}, // it is of the configuration
	} {
		if status, _ := a.do(c.method, c.path, ""); status != http.StatusMethodNotAllowed || a.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: got %d with Allow %q, want 405 with %q", c.method, c.path, status, a.header.Get("Allow"), c.allow)
		}
	}
}
