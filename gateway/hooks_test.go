package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/internal/eventually"
	"github.com/crosstown-mq/crosstown/internal/variants"
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
	for key, want := range map[string]string{
		"SAS_KEY_VALUE":    `[{"namespace":"sbemulatorns","name":"shop","path":"/$crosstown/hooks/shop","entity":"events","verify":"url","headers":["X-Event"]},{"namespace":"other","name":"till","path":"/$crosstown/hooks/till","entity":"events","verify":"url"}]`,
		"key-of-the-other": `[{"namespace":"other","name":"till","path":"/$crosstown/hooks/till","entity":"events","verify":"url"}]`,
	} {
		policy := map[bool]string{true: "RootManageSharedAccessKey", false: "other"}[key == "SAS_KEY_VALUE"]
		if status, text := (&asks{T: t, g: g, policy: policy, key: key}).do("GET", api.HooksPath, ""); status != 200 || strings.TrimSpace(text) != want {
			t.Errorf("%s is told %d %s, want %s", policy, status, text, want)
		}
	}
	if log := g.stderr.String(); strings.Contains(log, "a-secret") || !strings.Contains(log, "hook=shop") {
		t.Errorf("the log must name the hook and no secret:\n%s", log)
	}
}

func TestAClientCannotTrySecretsOfAHookFast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret, path := filepath.Join(dir, "secret"), filepath.Join(dir, "c.yaml")
	rewrite(t, secret, "a-secret-in-the-address\n")
	rewrite(t, path, "queues: [{name: events}]\nhooks: [{name: shop, entity: events, verify: url, secret-file: "+secret+"}]\n")
	g := startGateway(t, "--store=memory", "--config="+path)
	post := func(secret string) *http.Response {
		res, err := http.Post("http://"+g.address+"/$crosstown/hooks/shop?secret="+secret, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res
	}
	for end, n := time.Now().Add(patience), 1; ; n++ {
		res := post("a-secret-that-is-guessed-" + strconv.Itoa(n))
		if res.StatusCode == http.StatusTooManyRequests && n > 20 && res.Header.Get("Retry-After") == "1" {
			break
		}
		if res.StatusCode != http.StatusUnauthorized || time.Now().After(end) {
			t.Fatalf("guess %d: got %d %v", n, res.StatusCode, res.Header)
		}
	}
	if _, text := (&asks{T: t, g: g, policy: "RootManageSharedAccessKey", key: "SAS_KEY_VALUE"}).do("GET", api.MetricsPath, ""); !strings.Contains(text, `crosstown_http_requests_total{route="/$crosstown/hooks",status="429"} 1`) {
		t.Error("the metrics lack the refusal")
	}
}

func TestMessagesArePushedOfEveryEngine(t *testing.T) {
	t.Parallel()
	variants.Each(t, func(t *testing.T, store string) {
		t.Parallel()
		got := make(chan string, 10)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got <- r.Header.Get("webhook-id") + " " + string(body)
			if r.Header.Get("webhook-id") == "gone" {
				w.WriteHeader(http.StatusGone)
			}
		}))
		defer server.Close()
		dir := t.TempDir()
		secret, path := filepath.Join(dir, "secret"), filepath.Join(dir, "c.yaml")
		file := `topics: [{name: orders, subscriptions: [{name: shop}]}]
pushes: [{name: shop, from: orders/Subscriptions/shop, url: "` + server.URL + `/?key=in-the-address", secret-file: ` + secret + `}]
namespaces: [{name: other, policies: [{name: other, key: key-of-the-other, rights: Manage}]}]
`
		for name, content := range map[string]string{secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", path: file} {
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		g := startGateway(t, "--store="+storeOf(t, store), "--config="+path)
		for _, id := range []string{"m1", "gone"} {
			g.command(t, "", "send", "orders", "hello", "--message-id", id)
			select {
			case text := <-got:
				if text != id+" hello" {
					t.Errorf("got %q, want %q", text, id+" hello")
				}
			case <-time.After(patience):
				t.Fatal("no request: ", g.stderr)
			}
		}
		var states []api.Push
		eventually.True(t, "a push tells of its dead letter", func() bool {
			status, text := (&asks{T: t, g: g, policy: "RootManageSharedAccessKey", key: "SAS_KEY_VALUE"}).do("GET", api.PushesPath, "")
			if err := json.Unmarshal([]byte(text), &states); status != 200 || err != nil {
				t.Fatalf("%d %v in %s", status, err, text)
			}
			return len(states) > 0 && states[0].DeadLettered > 0
		})
		if s := states[0]; len(states) != 1 || s.Delivered != 1 || s.DeadLettered != 1 || s.URL != server.URL+"/" || s.Namespace != "sbemulatorns" {
			t.Errorf("got %+v", states)
		}
		if status, text := (&asks{T: t, g: g, policy: "other", key: "key-of-the-other"}).do("GET", api.PushesPath, ""); status != 200 || strings.TrimSpace(text) != "[]" {
			t.Errorf("another namespace is told %d %s", status, text)
		}
		if status, text := (&asks{T: t, g: g, policy: "RootManageSharedAccessKey", key: "SAS_KEY_VALUE"}).do("GET", api.MetricsPath, ""); status != 200 ||
			!strings.Contains(text, `crosstown_push_attempts_total{namespace="sbemulatorns",push="shop",result="dead_lettered"} 1`) {
			t.Errorf("metrics: %d lacks the dead letter", status)
		}
		if log := g.stderr.String(); strings.Contains(log, "in-the-address") || strings.Contains(log, "whsec_") {
			t.Errorf("the log holds a secret:\n%s", log)
		}
	}, "memory", "file", "redis")
}

func TestGatewaysOnOneRedisShareAPush(t *testing.T) {
	t.Parallel()
	const messages = 60
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Header.Get("webhook-id")]++
	}))
	defer server.Close()
	dir := t.TempDir()
	secret, path := filepath.Join(dir, "secret"), filepath.Join(dir, "c.yaml")
	for name, content := range map[string]string{
		secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		path:   "queues: [{name: orders}]\npushes: [{name: shop, from: orders, url: " + server.URL + ", secret-file: " + secret + ", concurrency: 2}]\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := redistest.Start(t, redistest.Options{}).URL()
	gateways := []*gateway{startGateway(t, "--store="+store, "--config="+path), startGateway(t, "--store="+store, "--config="+path)}
	gateways[0].command(t, "", "send", "orders", "hello", "--count", strconv.Itoa(messages))
	eventually.True(t, "the gateways have delivered all messages", func() bool {
		delivered := int64(0)
		for _, g := range gateways {
			var states []api.Push
			_, text := (&asks{T: t, g: g, policy: "RootManageSharedAccessKey", key: "SAS_KEY_VALUE"}).do("GET", api.PushesPath, "")
			if err := json.Unmarshal([]byte(text), &states); err != nil || len(states) != 1 {
				t.Fatalf("%v in %s", err, text)
			}
			delivered += states[0].Delivered
		}
		return delivered >= messages
	})
	mu.Lock()
	defer mu.Unlock()
	for id, count := range seen {
		if count != 1 {
			t.Errorf("%s was delivered %d times", id, count)
		}
	}
	if len(seen) != messages {
		t.Errorf("%d messages were delivered, want %d", len(seen), messages)
	}
}
