package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestHooks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secrets, short, empty := write("secrets", "the-first-secret-of-two\nthe-second-secret-of-two\n"), write("short", "short"), write("empty", "\n")
	const variable = "HOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	good := write("good.yaml", `hooks:
  - {name: a, entity: q, verify: github, secret-file: `+secrets+`, tolerance: 1m}
  - {name: b, entity: q, verify: standard, secret-env: HOOK_SECRET, headers: [X-Event]}
`)
	c, err := load(t, nil, []string{variable}, "--config="+good)
	if err != nil {
		t.Fatal(err)
	}
	hooks := c.Hooks()
	if len(hooks) != 2 || len(hooks[0].Keys) != 2 || string(hooks[0].Keys[1]) != "the-second-secret-of-two" || hooks[0].Tolerance != time.Minute ||
		len(hooks[1].Keys) != 1 || len(hooks[1].Keys[0]) != 24 || hooks[1].Tolerance != 5*time.Minute || hooks[1].Namespace != c.Namespace {
		t.Errorf("got %+v", hooks)
	}
	bad := write("bad.yaml", `hooks:
  - {name: a, entity: q, verify: github, secret-file: `+short+`}
  - {name: A, entity: q, verify: github, secret-file: `+secrets+`}
  - {name: c, entity: q, verify: guess, secret-file: `+secrets+`}
  - {name: d, entity: q, verify: url}
  - {name: e, entity: q, verify: url, secret-env: NO_SUCH_VARIABLE}
  - {name: f, entity: q, verify: url, secret-file: `+empty+`}
  - {name: g, entity: "", verify: standard, secret-file: `+secrets+`, id-header: X-Id, headers: [authorization], tolerance: 1ms}
`)
	_, err = load(t, nil, []string{variable}, "--config="+bad)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"hooks[0].secret-file: the secret has 5 characters", `hooks[1].name: hook "A" is listed twice`, `hooks[2].verify: "guess" is not a verification method`,
		"hooks[3]: the secret must be in exactly one place", "hooks[4].secret-env: the secret is empty", "hooks[5].secret-file: the secret is empty",
		"hooks[6].entity: ", "hooks[6].secret-file: the secret must be whsec_", "hooks[6].id-header: ", `hooks[6].headers[0]: "Authorization" cannot be a property of messages`, "hooks[6].tolerance: 1ms is too short",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "of-two") {
		t.Errorf("the error holds a secret: %v", err)
	}
}

func TestPushes(t *testing.T) {
	t.Parallel()
	const variable = "PUSH_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	c, err := load(t, map[string]string{"good.yaml": "pushes: [{name: a, from: t/Subscriptions/s, url: https://a.example/in, secret-env: PUSH_SECRET, concurrency: 3, timeout: 5s}]"}, []string{variable}, "--config=$DIR/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Pushes(); len(p) != 1 || len(p[0].Key) != 24 || p[0].Concurrent != 3 || p[0].Timeout != 5*time.Second || p[0].Namespace != c.Namespace {
		t.Errorf("got %+v", p)
	}
	_, err = load(t, map[string]string{"bad.yaml": `pushes:
  - {name: a, from: q, url: https://a.example, secret-env: PUSH_SECRET}
  - {name: A, from: q/$DeadLetterQueue, url: "ftp://a.example/?secret=x", secret-env: TWO, concurrency: 0, timeout: 1ms}
  - {name: c, from: q, url: https://a.example}
`}, []string{variable, "TWO=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx"}, "--config=$DIR/bad.yaml")
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`pushes[1].name: push "A" is listed twice`, "pushes[1].from: ", "pushes[1].url: the value is not a URL", "pushes[1]: the push has 2 secrets",
		"pushes[1].concurrency: 0 is out of range", "pushes[1].timeout: 1ms is out of range", "pushes[2]: the secret must be in exactly one place",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}
