package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

func TestKeysOfPolicies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret := write("secret", "from-a-file\n")
	file := write("c.yaml", `policies:
  - {name: file, key-file: `+secret+`, rights: Send}
  - {name: variable, key-env: APP_KEY, secondary-key-file: `+secret+`, rights: Listen}
  - {name: made, rights: Manage}
queues:
  - name: orders
    policies: [{name: made, rights: Send}]
namespaces:
  - {name: other, policies: [{name: made, rights: "Send,Listen"}]}
`)
	environ := []string{"APP_KEY=from-a-variable"}
	args := []string{"--config=" + file, "--data=" + dir, "--policy=flagged:Listen", "--policy=filed=@" + secret + ":Send"}
	c, err := load(t, nil, environ, args...)
	if err != nil {
		t.Fatal(err)
	}
	p := c.Policies
	if p[0].Key != "from-a-file" || p[1].Key != "from-a-variable" || p[1].SecondaryKey != "from-a-file" || p[4].Key != "from-a-file" || p[3].Rights != core.Listen {
		t.Errorf("got %+v", p)
	}
	made, err := c.KeepKeys()
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, k := range made {
		info, err := os.Stat(k.File)
		if err != nil || info.Mode().Perm() != 0o600 || len(k.Key) != 44 || keys[k.Key] {
			t.Errorf("%+v: %v", k, err)
		}
		keys[k.Key] = true
	}
	if len(made) != 4 || !keys[p[2].Key] || !keys[c.Queues[0].Policies[0].Key] || !keys[c.Namespaces[0].Policies[0].Key] {
		t.Errorf("made %+v", made)
	}
	again, err := load(t, nil, environ, args...)
	if err != nil {
		t.Fatal(err)
	}
	if made, err := again.KeepKeys(); err != nil || len(made) > 0 {
		t.Errorf("at the second start: made %+v, %v", made, err)
	}
	if again.Policies[2].Key != p[2].Key || again.Queues[0].Policies[0].Key != c.Queues[0].Policies[0].Key {
		t.Error("at the second start the keys are others")
	}

	write("c.yaml", `policies:
  - {name: a, key: x, key-env: APP_KEY, rights: Send}
  - {name: b, key-file: `+dir+`/none, rights: Send}
  - {name: c, key-env: NOT_SET, rights: Send}
  - {name: d, key-file: `+write("empty", "\n")+`, rights: Send}
`)
	_, err = load(t, nil, environ, "--config="+file, "--data="+dir)
	for _, want := range []string{
		"policies[0].key: the key is given more than once: keep one of key, key-file and key-env", "policies[1].key-file: open ",
		"policies[2].key-env: the variable NOT_SET is empty", "policies[3].key-file: the file " + dir + "/empty is empty",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A policy may have the name of a queue, and any name is no other place in the file system.
func TestKeysOfPoliciesAreKeptApart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	const text = `policies: [{name: orders, rights: Manage}, {name: .., rights: Send}, {name: ., rights: Send}, {name: ../../x, rights: Send}]
queues:
  - {name: orders, policies: [{name: orders, rights: Send}, {name: .., rights: Send}]}
  - {name: orders/express, policies: [{name: orders, rights: Send}]}
namespaces:
  - {name: orders, policies: [{name: orders, rights: Send}], queues: [{name: entities, policies: [{name: policies, rights: Send}]}]}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, nil, nil, "--config="+file, "--data="+dir)
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.KeepKeys()
	if err != nil || len(made) != 9 {
		t.Fatalf("made %d: %v", len(made), err)
	}
	for _, k := range made {
		if in, err := filepath.Rel(filepath.Join(dir, "keys"), k.File); err != nil || strings.HasPrefix(in, "..") {
			t.Errorf("%s is kept in %s", k.Policy, k.File)
		}
	}
	again, err := load(t, nil, nil, "--config="+file, "--data="+dir)
	if err != nil {
		t.Fatal(err)
	}
	if more, err := again.KeepKeys(); err != nil || len(more) != 0 || again.Queues[0].Policies[0].Key != c.Queues[0].Policies[0].Key || again.Policies[1].Key != c.Policies[1].Key {
		t.Errorf("a second start: made %+v, %v", more, err)
	}
}
