package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

func TestRemotesAreShownToTheirNamespace(t *testing.T) {
	t.Parallel()
	const file = `namespaces:
  - name: a
    policies: [{name: a, key: key-of-a, rights: Manage}, {name: looker, key: key-of-the-looker, rights: "Send,Listen"}]
    queues: [{name: out, forward-to: "b:in"}, {name: dead, forward-dead-lettered-messages-to: "B:in"}]
    remotes: [{name: b, namespace: b}]
  - name: b
    policies: [{name: b, key: key-of-b, rights: Manage}]
    queues: [{name: in}, {name: out, forward-to: "b:in"}]
    remotes: [{name: b, namespace: sbemulatorns}, {name: a, namespace: a}]
remotes: [{name: a, namespace: a}]
`
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	g := startGateway(t, "--store=memory", "--policy=RootManageSharedAccessKey=root:Manage", "--config="+path)
	for _, c := range []struct {
		policy, key string
		status      int
		want        string
	}{
		{"RootManageSharedAccessKey", "root", 200, "sbemulatorns/a; a/b dead>in out>in; b/b out>in; b/a"},
		{"a", "key-of-a", 200, "a/b dead>in out>in"},
		{"b", "key-of-b", 200, "b/b out>in; b/a"},
		{"looker", "key-of-the-looker", 401, ""},
	} {
		status, text := (&asks{T: t, g: g, policy: c.policy, key: c.key}).do("GET", api.RemotesPath, "")
		if status != c.status {
			t.Errorf("%s: got %d %s, want %d", c.policy, status, text, c.status)
		}
		var states []api.Remote
		if err := json.Unmarshal([]byte(text), &states); status == 200 && err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		var got []string
		for _, s := range states {
			var line strings.Builder
			line.WriteString(s.Namespace + "/" + s.Name)
			for _, w := range s.Waiting {
				line.WriteString(" " + w.Entity + ">" + w.To)
			}
			got = append(got, line.String())
		}
		if told := strings.Join(got, "; "); told != c.want {
			t.Errorf("%s is told %q, want %q", c.policy, told, c.want)
		}
	}
	if status, text := (&asks{T: t, g: g, policy: "a", key: "key-of-a"}).do("POST", api.RemotesPath, ""); status != 405 {
		t.Errorf("POST: got %d %s, want 405", status, text)
	}
}
