package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestARequestOfAnotherServiceBecomesAMessage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	file := `queues: [{name: events}]
hooks: [{name: shop, entity: events, verify: url, secret-file: ` + secret + `, id-header: X-Delivery, headers: [X-Event]}]
namespaces:
  - name: other
    policies: [{name: other, key: key-of-the-other, rights: Manage}]
    queues: [{name: events}]
    hooks: [{name: till, entity: events, verify: url, secret-file: ` + secret + `}]
`
	for path, content := range map[string]string{secret: "a-secret-in-the-address\n", filepath.Join(dir, "c.yaml"): file} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := startGateway(t, "--store=memory", "--config="+filepath.Join(dir, "c.yaml"))
	post := func(path string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.address+path, strings.NewReader(`{"paid":true}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Event", "paid")
		r.Header.Set("X-Delivery", "d1")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	for path, want := range map[string]int{
		"/$crosstown/hooks/shop?secret=a-secret-in-the-address":     202,
		"/%24Crosstown/hooks/till?secret=a-secret-in-the-address":   202,
		"/$crosstown/hooks/shop?secret=a-secret-in-another-address": 401,
		"/$crosstown/hooks/shop":                                    401,
		"/$crosstown/hooks/none?secret=a-secret-in-the-address":     404,
	} {
		if got := post(path); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
	if got := g.command(t, "", "receive", "events", "--json"); !strings.Contains(got, `"d1"`) || !strings.Contains(got, "paid") {
		t.Errorf("got %s", got)
	}
	if log := g.stderr.String(); strings.Contains(log, "a-secret") || !strings.Contains(log, "hook=shop") {
		t.Errorf("the log must name the hook and no secret:\n%s", log)
	}
}
