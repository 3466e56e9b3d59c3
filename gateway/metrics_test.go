package main

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	goamqp "github.com/Azure/go-amqp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

var adminLine = regexp.MustCompile(`admin +http://(\S+)/metrics`)

// ask sends a request as somebody: a policy and its key, or a token, or nobody.
func ask(t *testing.T, method, url, user, key string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		r.SetBasicAuth(user, key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestMetricsAreForThoseWhoMayManage(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "crosstown.yaml", `
policies:
  - {name: RootManageSharedAccessKey, key: root-key, rights: "Manage,Send,Listen"}
  - {name: reader, key: reader-key, rights: Listen}
queues: [{name: Orders}, {name: sessions, requires-session: true}]
`)
	g := startGateway(t, "--store=memory", "--config", file, "--admin-listen=127.0.0.1:0")
	g.connection = strings.Replace(g.connection, "<key of RootManageSharedAccessKey>", "root-key", 1)
	for range 3 {
		g.command(t, "", "send", "orders", "hello")
	}
	g.command(t, "", "receive", "orders")
	g.command(t, "", "send", "sessions", "hello", "--session", "a")
	base, admin := "http://"+g.address, "http://"+adminLine.FindStringSubmatch(g.stdout.String())[1]

	for _, c := range []struct {
		url, user, key string
		status         int
		text           string
	}{
		{base + "/$crosstown/metrics", "", "", 401, "MissingToken"},
		{base + "/$crosstown/metrics", "reader", "reader-key", 401, "Manage"},
		{base + "/$crosstown/metrics", "RootManageSharedAccessKey", "wrong", 401, ""},
		{base + "/%24crosstown/metrics", "RootManageSharedAccessKey", "root-key", 200, `crosstown_accepted_messages_total{entity="Orders",namespace="sbemulatorns"} 3`},
		{base + "/$crosstown/counters/orders", "", "", 401, "MissingToken"},
		{base + "/$crosstown/counters/orders", "reader", "reader-key", 200, `{"entity":"Orders","active":2,"ready":2,"locked":0,"deferred":0,"scheduled":0,"deadLetter":0,"transfer":0,"damaged":0}`},
		{base + "/$crosstown/counters/sessions", "reader", "reader-key", 200, `"sessions":1`},
		{base + "/$crosstown/counters/none", "reader", "reader-key", 404, "none"},
		{base + "/$crosstown/counters/", "reader", "reader-key", 404, "/$crosstown/counters/NAME"},
		{base + "/debug/pprof/goroutine?debug=1", "RootManageSharedAccessKey", "root-key", 401, ""},
		{admin + "/metrics", "", "", 200, "crosstown_build_info"},
		{admin + "/debug/pprof/", "", "", 200, "goroutine"},
		{admin + "/debug/pprof/goroutine?debug=1", "", "", 200, "goroutine profile"},
		{admin + "/debug/pprof/cmdline", "", "", 404, ""},
		{admin + "/", "", "", 404, ""},
	} {
		if status, body := ask(t, "GET", c.url, c.user, c.key); status != c.status || !strings.Contains(body, c.text) {
			t.Errorf("%s as %q: got %d, want %d with %q:\n%.2000s", c.url, c.user, status, c.status, c.text, body)
		}
	}
	if status, _ := ask(t, "POST", base+"/$crosstown/metrics", "RootManageSharedAccessKey", "root-key"); status != 401 {
		t.Errorf("a key is good for more than looking: got %d", status)
	}

	_, text := ask(t, "GET", admin+"/metrics", "", "")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"crosstown_connections", "crosstown_store_call_duration_seconds", "crosstown_entity_messages", "crosstown_operations_total", "go_goroutines"} {
		if families[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestARedisStoreTellsHowCallsShareExchanges(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store="+storeOf(t, "redis"), "--admin-listen=127.0.0.1:0")
	g.command(t, "", "queue", "create", "q")
	g.command(t, "", "send", "q", "hello")
	_, text := ask(t, "GET", "http://"+adminLine.FindStringSubmatch(g.stdout.String())[1]+"/metrics", "", "")
	if want := `crosstown_redis_flush_items_count{call="append"} 1`; !strings.Contains(text, want) {
		t.Errorf("lacks %s:\n%s", want, text)
	}
}

func TestThereIsNoAdminListenerUnlessItIsWanted(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	if text := g.stdout.String(); strings.Contains(text, "admin") {
		t.Errorf("got:\n%s", text)
	}
	status, body := ask(t, "GET", "http://"+g.address+"/$crosstown/counters/none", "RootManageSharedAccessKey", "SAS_KEY_VALUE")
	var answer struct{ Error string }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 404 || !strings.Contains(answer.Error, "could not be found") {
		t.Errorf("got %d %s", status, body)
	}
}

func TestAnAdminAddressThatCannotBeIsNamed(t *testing.T) {
	t.Parallel()
	code, _, stderr := invoke(t, nil, "--data="+t.TempDir(), "--store=memory", "--listen=127.0.0.1:0", "--admin-listen=9095")
	if code != exitUsage || !strings.Contains(stderr, `--admin-listen: "9095" is not an address to listen on`) {
		t.Errorf("got %d:\n%s", code, stderr)
	}
	g := startGateway(t, "--store=memory")
	code, _, stderr = invoke(t, nil, "--data="+t.TempDir(), "--store=memory", "--listen=127.0.0.1:0", "--admin-listen="+g.address)
	if code != exitFailure || !strings.Contains(stderr, "in use") || !strings.Contains(stderr, "use --admin-listen instead of --listen") {
		t.Errorf("got %d:\n%s", code, stderr)
	}
}

func TestANamespacesManagerSeesItsOwnMetricsOnly(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "crosstown.yaml", `
policies:
  - {name: RootManageSharedAccessKey, key: root-key, rights: "Manage,Send,Listen"}
queues: [{name: mine}]
namespaces:
  - name: suite-a
    policies: [{name: a, key: key-a, rights: "Manage,Send,Listen"}, {name: reader, key: key-r, rights: Listen}]
    queues: [{name: orders}, {name: only-a}]
  - name: suite-b
    policies: [{name: b, key: key-b, rights: "Manage,Send,Listen"}]
    queues: [{name: orders}]
`)
	g := startGateway(t, "--store=memory", "--config", file, "--admin-listen=127.0.0.1:0")
	base := "http://" + g.address
	for namespace, messages := range map[string]int{"a": 2, "b": 3} {
		connection := "Endpoint=sb://" + g.address + ";SharedAccessKeyName=" + namespace + ";SharedAccessKey=key-" + namespace + ";UseDevelopmentEmulator=true"
		for range messages {
			if code, _, stderr := g.try(t, connection, "", "send", "orders", "hello"); code != exitOK {
				t.Fatal(stderr)
			}
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	for namespace, want := range map[string]float64{"a": 2, "b": 3} {
		status, text := ask(t, "GET", base+"/$crosstown/metrics", namespace, "key-"+namespace)
		families, err := parser.TextToMetricFamilies(strings.NewReader(text))
		if status != 200 || err != nil {
			t.Fatalf("%s: %d, %v\n%s", namespace, status, err, text)
		}
		for name, f := range families {
			for _, m := range f.GetMetric() {
				labels := map[string]string{}
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
				if labels["namespace"] != "suite-"+namespace {
					t.Errorf("%s is shown %s%v", namespace, name, labels)
				}
				if name == "crosstown_accepted_messages_total" && labels["entity"] == "orders" && m.GetCounter().GetValue() != want {
					t.Errorf("%s: accepted %v, want %v", namespace, m.GetCounter().GetValue(), want)
				}
			}
		}
		if families["crosstown_accepted_messages_total"] == nil {
			t.Errorf("%s sees nothing:\n%s", namespace, text)
		}
	}
	for _, spelled := range []string{"orders/%3a%2f%2fx%2fonly-a", "orders/%253a%252f%252fx%252fonly-a", "orders/%25253a%25252f%25252fx%25252fonly-a"} {
		token := auth.SignSAS(base+"/orders", "reader", "key-r", time.Now().Add(time.Hour))
		a := &asks{T: t, g: g}
		if status, text := a.do("GET", "/$crosstown/counters/"+spelled, "", "Authorization", token); status/100 != 4 {
			t.Errorf("%s, with a token for orders: got %d %s", spelled, status, text)
		}
	}
	for _, c := range []struct {
		path, user, key string
		status          int
		text            string
	}{
		{"/$crosstown/metrics", "reader", "key-r", 401, "Manage"},
		{"/$crosstown/metrics", "a", "key-b", 401, ""},
		{"/$crosstown/metrics", "RootManageSharedAccessKey", "root-key", 200, `crosstown_accepted_messages_total{entity="orders",namespace="suite-b"} 3`},
		{"/$crosstown/metrics", "RootManageSharedAccessKey", "root-key", 200, "crosstown_namespaces 3"},
		{"/$crosstown/counters/orders", "a", "key-a", 200, `"active":2`},
		{"/$crosstown/counters/orders", "b", "key-b", 200, `"active":3`},
		{"/$crosstown/counters/only-a", "reader", "key-r", 200, `"active":0`},
		{"/$crosstown/counters/only-a", "b", "key-b", 404, ""},
		{"/$crosstown/counters/orders", "RootManageSharedAccessKey", "root-key", 404, ""},
	} {
		if status, text := ask(t, "GET", base+c.path, c.user, c.key); status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s as %s: got %d, want %d with %q:\n%.3000s", c.path, c.user, status, c.status, c.text, text)
		}
	}
}

// Wherever the gateway says its version, it is the same.
func TestTheVersionIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	base, want := "http://"+g.address, versionText()
	for _, c := range []struct{ path, text string }{
		{"/$crosstown/metrics", `crosstown_build_info{version="` + want + `"} 1`},
		{"/$crosstown/status", `"version":"` + want + `"`},
	} {
		if code, body := ask(t, http.MethodGet, base+c.path, config.DevPolicy, config.DevKey); code != http.StatusOK || !strings.Contains(body, c.text) {
			t.Errorf("%s: got %d without %s:\n%.500s", c.path, code, c.text, body)
		}
	}
	if !strings.Contains(g.stdout.String(), "Crosstown "+want+", namespace ") || !strings.HasPrefix(fullVersion(), "crosstown "+want+" ") {
		t.Errorf("the start-up lines and the command: got\n%s%s", g.stdout, fullVersion())
	}
	c, err := goamqp.Dial(t.Context(), "amqp://"+g.address, &goamqp.ConnOptions{SASLType: goamqp.SASLTypePlain(config.DevPolicy, config.DevKey)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if got := c.Properties(); got["product"] != "crosstown" || got["version"] != want {
		t.Errorf("the open frame: got %v", got)
	}
}
