package main

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// asks sends requests about namespaces to a gateway, by a policy's key.
type asks struct {
	*testing.T
	g           *gateway
	policy, key string
	host        string // that is called; "": the address

	header http.Header // of the last answer
}

// do sends a request. A path that begins with /$ is whole, others are below that of
// the namespaces.
func (a *asks) do(method, path, body string, header ...string) (int, string) {
	a.Helper()
	if !strings.HasPrefix(path, "/$") {
		path = api.NamespacesPath + path
	}
	r, err := http.NewRequestWithContext(a.Context(), method, "http://"+a.g.address+path, strings.NewReader(body))
	if err != nil {
		a.Fatal(err)
	}
	if a.host != "" {
		r.Host = a.host
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if a.policy != "" {
		r.Header.Set("Authorization", auth.SignSAS("http://"+a.g.address, a.policy, a.key, time.Now().Add(time.Hour)))
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		a.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	a.header = answer.Header
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		a.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// must has a request answered with the status, and returns what is told.
func (a *asks) must(status int, method, path, body string) (n api.Namespace) {
	a.Helper()
	got, text := a.do(method, path, body)
	if got != status {
		a.Fatalf("%s %s %s: got %d %s, want %d", method, path, body, got, text, status)
	}
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		a.Fatalf("%s %s: %v in %s", method, path, err, text)
	}
	return n
}

const theirs = `
namespace: home
namespaces:
  - {name: set, policies: [{name: ops, key: set-key, rights: Manage}], queues: [{name: q}], topics: [{name: t, subscriptions: [{name: s}]}]}
`

func TestNamespacesAreMadeAndChangedOverHTTP(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--config", writeFile(t, "crosstown.yaml", theirs))
	op := &asks{T: t, g: g, policy: "RootManageSharedAccessKey", key: "SAS_KEY_VALUE"}

	made := op.must(201, "PUT", "/Suite-1", "")
	p := made.Policies[0]
	_, port, _ := strings.Cut(g.address, ":")
	if made.Name != "Suite-1" || made.Kind != api.Created || made.CreatedAt.IsZero() || len(made.Policies) != 1 ||
		p.Name != "RootManageSharedAccessKey" || p.Rights != "Send,Listen,Manage" || len(p.PrimaryKey) != 44 || len(p.SecondaryKey) != 44 ||
		p.ConnectionString != "Endpoint=sb://"+g.address+";SharedAccessKeyName="+p.Name+";SharedAccessKey="+p.PrimaryKey+";UseDevelopmentEmulator=true" ||
		p.HostConnectionString != strings.Replace(p.ConnectionString, g.address, "suite-1.localhost:"+port, 1) ||
		!slices.Equal(made.Hosts, []string{"suite-1.servicebus.windows.net", "suite-1.localhost"}) {
		t.Errorf("made: got %+v", made)
	}
	whole := op.must(201, "PUT", "/suite-2", `{"hosts": ["two.example"], "quotas": {"maxEntities": 1, "maxConnections": 2, "maxSizeMegabytes": 3},
		"policies": [{"name": "app", "rights": "Listen,Send", "primaryKey": "key"}, {"name": "more", "rights": "Manage"}]}`)
	if whole.Quotas != (api.Quotas{MaxEntities: 1, MaxConnections: 2, MaxSizeMegabytes: 3}) || whole.Policies[0].PrimaryKey != "key" || whole.Policies[0].SecondaryKey != "" ||
		whole.Policies[0].Rights != "Send,Listen" || !strings.Contains(whole.Policies[0].HostConnectionString, "sb://two.example:"+port+";") {
		t.Errorf("whole: got %+v", whole)
	}
	changed := op.must(200, "PUT", "/SUITE-2", `{"quotas": {"maxEntities": 7}}`)
	if changed.Name != "suite-2" || changed.Quotas != (api.Quotas{MaxEntities: 7}) || len(changed.Policies) != 2 || len(changed.Hosts) != 3 {
		t.Errorf("changed: got %+v", changed)
	}
	if got := op.must(200, "GET", "/suite-2", ""); got.Policies[1].PrimaryKey != whole.Policies[1].PrimaryKey {
		t.Errorf("got: %+v", got)
	}
	rotated := op.must(200, "POST", "/suite-1/policies/RootManageSharedAccessKey/rotate", "")
	if q := rotated.Policies[0]; q.SecondaryKey != p.PrimaryKey || q.PrimaryKey == p.PrimaryKey || !strings.Contains(q.ConnectionString, q.PrimaryKey) {
		t.Errorf("rotated: got %+v, before it %+v", q, p)
	}
	for _, fixed := range []struct{ name, kind string }{{"home", api.Own}, {"set", api.Configured}} {
		if got := op.must(200, "GET", "/"+fixed.name, ""); got.Kind != fixed.kind || !got.CreatedAt.IsZero() || len(got.Policies) == 0 || got.Policies[0].PrimaryKey != "" || got.Policies[0].ConnectionString != "" {
			t.Errorf("%s: got %+v", fixed.name, got)
		}
	}
	op.must(200, "POST", "/suite-1/reset", "")

	var names []string
	for after := ""; ; {
		var page api.NamespaceList
		status, text := op.do("GET", "?top=3&after="+after, "")
		if err := json.Unmarshal([]byte(text), &page); status != 200 || err != nil {
			t.Fatalf("list: got %d %s", status, text)
		}
		for _, n := range page.Namespaces {
			names = append(names, n.Name+" "+n.Kind)
			if n.Policies != nil {
				t.Errorf("the list tells the policies of %s", n.Name)
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	var counted api.NamespaceList
	if status, text := op.do("GET", "?entities=true", ""); status != 200 || json.Unmarshal([]byte(text), &counted) != nil ||
		len(counted.Namespaces) != 4 || *counted.Namespaces[0].Entities != 0 || *counted.Namespaces[1].Entities != 2 || *counted.Namespaces[1].Megabytes != 2048 {
		t.Errorf("list with entities: got %d %s", status, text)
	}
	if want := []string{"home own", "set configured", "Suite-1 created", "suite-2 created"}; !slices.Equal(names, want) {
		t.Errorf("list: got %q, want %q", names, want)
	}
	op.must(200, "DELETE", "/suite-1", "")
	for _, c := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"GET", "/suite-1", "", 404, "namespace 'suite-1' does not exist"},
		{"DELETE", "/suite-1", "", 404, "does not exist"},
		{"POST", "/suite-1/reset", "", 404, "does not exist"},
		{"POST", "/suite-2/policies/none/rotate", "", 404, "no policy 'none'"},
		{"POST", "/suite-2/empty", "", 404, "/reset"},
		{"GET", "/suite-2/reset", "", 405, "POST"},
		{"POST", "/suite-2", "", 405, "PUT"},
		{"PUT", "", "", 405, "use GET"},
		{"DELETE", "/home", "", 405, "configuration"},
		{"PUT", "/set", "{}", 405, "configuration"},
		{"POST", "/set/policies/ops/rotate", "", 405, "configuration"},
		{"PUT", "/a_b", "", 400, "not a valid namespace name"},
		{"PUT", "/a", `{"host": "x"}`, 400, "unknown field"},
		{"PUT", "/a", `{"policies": [{"name": "p", "rights": "All"}]}`, 400, "is not a right"},
		{"PUT", "/a", `{"policies": [{"name": "ops", "rights": "Send", "primaryKey": "set-key"}]}`, 400, "'set' already has the policy"},
		{"PUT", "/a", `{"hosts": ["set.localhost"]}`, 409, "'set'"},
		{"PUT", "/a", `{"hosts": ["` + strings.Repeat("a", 70<<10) + `"]}`, 400, "65536 bytes"},
		{"GET", "?top=0", "", 400, "1 to 1000"},
	} {
		if status, text := op.do(c.method, c.path, c.body); status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s %s: got %d %s, want %d with %q", c.method, c.path, status, text, c.status, c.text)
		}
	}
	if status, text := op.do("PUT", "/suite-2", "", "If-None-Match", "*"); status != 409 || !strings.Contains(text, "already exists") {
		t.Errorf("only if it is new: got %d %s", status, text)
	}
}

func TestWhoManagesANamespaceSeesNoOther(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--config", writeFile(t, "crosstown.yaml", theirs))
	op := &asks{T: t, g: g, policy: "RootManageSharedAccessKey", key: "SAS_KEY_VALUE"}
	g.command(t, "", "queue", "create", "secret")
	made := op.must(201, "PUT", "/made", `{"policies": [{"name": "root", "rights": "Manage"}, {"name": "low", "rights": "Send,Listen", "primaryKey": "low-key"}]}`)
	for _, a := range []*asks{
		{T: t, g: g, policy: "root", key: made.Policies[0].PrimaryKey},
		{T: t, g: g, policy: "root", key: made.Policies[0].PrimaryKey, host: "made.localhost"},
	} {
		if status, text := a.do("GET", "/$crosstown/metrics", ""); status != 200 || !strings.Contains(text, `namespace="made"`) || strings.Contains(text, "home") {
			t.Errorf("metrics: got %d %s", status, text)
		}
		if n := a.must(200, "GET", "/made", ""); n.Name != "made" || n.Policies[0].ConnectionString == "" {
			t.Errorf("its own: got %+v", n)
		}
		if status, text := a.do("GET", "", ""); status != 200 || strings.Contains(text, "home") || !strings.Contains(text, `"made"`) {
			t.Errorf("list: got %d %s", status, text)
		}
		a.must(200, "POST", "/made/reset", "")
		for _, c := range []struct{ method, path string }{
			{"GET", "/home"},
			{"GET", "/set"},
			{"GET", "/nobodys"},
			{"POST", "/set/reset"},
			{"POST", "/set/policies/ops/rotate"},
			{"PUT", "/new"},
			{"PUT", "/made"},
			{"DELETE", "/made"},
			{"DELETE", "/set"},
		} {
			if status, text := a.do(c.method, c.path, ""); status != 401 || !strings.Contains(text, "gateway's own namespace") {
				t.Errorf("%s %s: got %d %s, want 401", c.method, c.path, status, text)
			}
		}
		for _, path := range []string{"/$crosstown/plugins", "/$crosstown/pipelines"} {
			if status, text := a.do("GET", path, ""); status != 401 || !strings.Contains(text, "gateway's own namespace") {
				t.Errorf("GET %s: got %d %s, want 401", path, status, text)
			}
		}
		for path, want := range map[string]int{"/$crosstown/counters/secret": 404, "/$crosstown/entities": 200} {
			if status, text := a.do("GET", path, ""); status != want || want == 200 && strings.Contains(text, "secret") {
				t.Errorf("GET %s, where another namespace has the queue secret: got %d %s, want %d", path, status, text, want)
			}
		}
	}
	for _, a := range []*asks{{T: t, g: g}, {T: t, g: g, policy: "low", key: "low-key"}, {T: t, g: g, policy: "root", key: "guess"}, {T: t, g: g, policy: "ops", key: "set-key", host: "made.localhost"}} {
		for _, path := range []string{"", "/made"} {
			if status, text := a.do("GET", path, ""); status != 401 {
				t.Errorf("%s by %s at %s: got %d %s, want 401", path, a.policy, a.host, status, text)
			}
		}
	}
}

func TestAGatewayWithoutPipelinesHasAnEmptyList(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	a := &asks{T: t, g: g, policy: config.DevPolicy, key: config.DevKey}
	if status, text := a.do("GET", "/$crosstown/pipelines", ""); status != 200 || strings.TrimSpace(text) != "[]" {
		t.Errorf("got %d %q, want an empty list", status, text)
	}
}

func TestNamespacesByTheCommandLine(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	do := func(connection string, args ...string) string {
		t.Helper()
		code, stdout, stderr := g.try(t, connection, "", args...)
		if code != exitOK {
			t.Fatalf("crosstown %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
		}
		return stdout
	}
	var made api.Namespace
	if err := json.Unmarshal([]byte(do(g.connection, "namespace", "create", "suite", "--policy=app:Send,Listen", "--policy=ops=ops-key:Manage", "--host", "suite.example", "--max-entities=3", "--json")), &made); err != nil {
		t.Fatal(err)
	}
	if made.Quotas.MaxEntities != 3 || made.Policies[1].PrimaryKey != "ops-key" || len(made.Policies[0].PrimaryKey) != 44 || made.Hosts[2] != "suite.example" {
		t.Errorf("created: got %+v", made)
	}
	ops := made.Policies[1].ConnectionString
	do(ops, "queue", "create", "orders")
	do(made.Policies[0].ConnectionString, "send", "orders", "hello")
	if shown := do(g.connection, "queue", "list"); strings.Contains(shown, "orders") {
		t.Errorf("the gateway's own namespace has the queue: %s", shown)
	}
	if shown := do(g.connection, "namespace", "create", "plain"); !strings.Contains(shown, "created namespace plain\npolicy RootManageSharedAccessKey (Send,Listen,Manage)\n  connect   Endpoint=sb://localhost:") ||
		!strings.Contains(shown, "by host   Endpoint=sb://plain.localhost:") {
		t.Errorf("create: %s", shown)
	}
	if shown := do(g.connection, "namespace", "list"); !strings.Contains(shown, "suite") || !strings.Contains(shown, "suite.example") || !strings.Contains(shown, "own") {
		t.Errorf("list: %s", shown)
	}
	if shown := do(g.connection, "namespace", "list", "--json"); !strings.HasPrefix(shown, `{"name":`) || strings.Count(shown, "\n{\"name\":") != strings.Count(shown, "\n")-1 {
		t.Errorf("list as JSON: %s", shown)
	}
	if shown := do(ops, "namespace", "list"); strings.Contains(shown, "plain") || !strings.Contains(shown, "suite") {
		t.Errorf("list in the namespace: %s", shown)
	}
	if shown := do(ops, "namespace", "show", "suite"); !strings.Contains(shown, "max-entities  3") || !strings.Contains(shown, "policy ops (Send,Listen,Manage)") {
		t.Errorf("show: %s", shown)
	}
	if shown := do(g.connection, "namespace", "update", "suite", "--max-connections=9", "--host=a.example", "--host=b.example"); !strings.Contains(shown, "max-entities     3") ||
		!strings.Contains(shown, "max-connections  9") || !strings.Contains(shown, "a.example b.example") || strings.Contains(shown, "suite.example") || !strings.Contains(shown, "SharedAccessKey=ops-key") {
		t.Errorf("update: %s", shown)
	}
	if shown := do(g.connection, "namespace", "update", "suite", "--host=", "--max-entities=0"); strings.Contains(shown, "a.example") || strings.Contains(shown, "max-entities") || !strings.Contains(shown, "max-connections  9") {
		t.Errorf("update: %s", shown)
	}
	if shown := do(ops, "namespace", "rotate", "suite", "ops"); !strings.Contains(shown, "also key  ops-key") {
		t.Errorf("rotate: %s", shown)
	}
	if shown := do(ops, "namespace", "reset", "suite"); shown != "reset namespace suite\n" {
		t.Errorf("reset: %s", shown)
	}
	if code, shown, _ := g.try(t, ops, "", "peek", "orders"); code != exitNothing {
		t.Errorf("after the reset: exit code %d, %s", code, shown)
	}
	if shown := do(g.connection, "namespace", "delete", "suite"); shown != "deleted namespace suite\n" {
		t.Errorf("delete: %s", shown)
	}
	for _, c := range []struct {
		connection, want string
		code             int
		args             []string
	}{
		{g.connection, "The namespace 'suite' does not exist", exitFailure, []string{"show", "suite"}},
		{g.connection, "already exists", exitFailure, []string{"create", "PLAIN"}},
		{g.connection, "has no rights", exitUsage, []string{"create", "x", "--policy=app"}},
		{g.connection, "is not a right", exitUsage, []string{"create", "x", "--policy=app:All"}},
		{g.connection, "in the gateway's configuration", exitFailure, []string{"delete", "sbemulatorns"}},
		{g.connection, "no policy 'none'", exitFailure, []string{"rotate", "plain", "none"}},
		{g.connection, "the command line has 0 arguments: write crosstown namespace create NAME", exitUsage, []string{"create"}},
		{g.connection, "is publicly known", exitFailure, []string{"create", "x", "--policy=app=SAS_KEY_VALUE:Send"}},
		{g.connection, "use at least one of --host", exitUsage, []string{"update", "plain"}},
		{g.connection, "The namespace 'none' does not exist", exitFailure, []string{"update", "none", "--max-entities=3"}},
		{g.connection, "in the gateway's configuration", exitFailure, []string{"update", "sbemulatorns", "--max-entities=3"}},
		{ops, "policy", exitFailure, []string{"show", "suite"}},
	} {
		code, _, stderr := g.try(t, c.connection, "", append([]string{"namespace"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("crosstown namespace %s: got %d, %s, want %d with %q", strings.Join(c.args, " "), code, stderr, c.code, c.want)
		}
	}
}

// A web token is for the gateway's own namespace: at the host of another it is
// nobody's, and an operator's elsewhere.
func TestWebTokensStayInTheGatewaysOwnNamespace(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--dev-identity", "--dev-identity-listen=127.0.0.1:0")
	found := identityLine.FindStringSubmatch(g.stdout.String())
	if found == nil {
		t.Fatalf("no endpoint is printed:\n%s", g.stdout)
	}
	token, err := managedIdentity{found[1], found[2], ""}.GetToken(t.Context(), policy.TokenRequestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a := &asks{T: t, g: g}
	if status, text := a.do("PUT", "/made", "", "Authorization", "Bearer "+token.Token); status != 201 {
		t.Fatalf("as the operator: got %d %s", status, text)
	}
	for host, want := range map[string]int{"": 200, "localhost": 200, "sbemulatorns.localhost": 200, "made.localhost": 401, "MADE.servicebus.windows.net:443": 401} {
		a.host = host
		if status, text := a.do("GET", "/made", "", "Authorization", "Bearer "+token.Token); status != want {
			t.Errorf("at %q: got %d %s, want %d", host, status, text, want)
		}
	}
}
