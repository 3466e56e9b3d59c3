package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/redisstore/redistest"
)

func TestTheClientsRoundTrip(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store", "memory")
	for name, connection := range map[string]string{"plain": g.connection, "over TLS": g.secure} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := "orders-" + strings.Fields(name)[0]
			do := func(stdin string, args ...string) string {
				t.Helper()
				code, stdout, stderr := g.try(t, connection, stdin, args...)
				if code != exitOK {
					t.Fatalf("crosstown %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
				}
				return stdout
			}
			equal := func(got, want string) {
				t.Helper()
				if got != want {
					t.Errorf("got  %q\nwant %q", got, want)
				}
			}
			equal(do("", "queue", "create", queue, "--lock-duration=30s", "--max-delivery-count", "2"), "created queue "+queue+"\n")
			equal(do("", "send", queue, "one", "two", "--property", "colour=red", "--content-type", "text/plain", "--message-id", "m"), "sent 2 messages to "+queue+"\n")
			equal(do("three\nfour\n", "send", queue), "sent 2 messages to "+queue+"\n")

			var first struct {
				MessageID, ContentType, Body, State string
				Properties                          map[string]string
				SequenceNumber                      int64
				ExpiresAt                           *time.Time
			}
			if err := json.Unmarshal([]byte(do("", "peek", queue, "--count=1", "--json")), &first); err != nil {
				t.Fatal(err)
			}
			if first.Body != "one" || first.MessageID != "m" || first.ContentType != "text/plain" || first.Properties["colour"] != "red" || first.State != "active" || first.SequenceNumber != 1 || first.ExpiresAt != nil {
				t.Errorf("peeked: got %+v", first)
			}
			equal(bodies(do("", "peek", queue, "--from", "3")), "three four")
			equal(bodies(do("", "receive", queue, "--abandon")), "one")
			equal(bodies(do("", "receive", queue)), "one")
			equal(bodies(do("", "receive", queue, "--dead-letter", "--reason", "ugly")), "two")
			dead := do("", "receive", queue, "--dlq")
			equal(bodies(dead), "two")
			if !strings.Contains(dead, "dead-letter reason: ugly") {
				t.Errorf("the reason is missing: %s", dead)
			}
			equal(bodies(do("", "receive", queue, "--count", "0", "--wait", "200ms", "--mode", "delete")), "three four")

			do("", "send", queue, "x", "--count", "1500")
			equal(do("", "send", queue, "later", "--schedule", "1h", "--json"), `{"sent":1,"sequenceNumbers":[1505]}`+"\n")
			if got := do("", "queue", "list"); !strings.Contains(got, queue) || !strings.Contains(got, "1500") {
				t.Errorf("list: %s", got)
			}
			equal(do("", "queue", "purge", queue), "purged 1500 messages from "+queue+"\n")

			equal(do("", "queue", "update", queue, "--max-delivery-count=7", "--status", "SendDisabled"), "updated queue "+queue+"\n")
			var shown struct {
				Name      string
				Scheduled int
				Settings  map[string]any
			}
			if err := json.Unmarshal([]byte(do("", "queue", "show", queue, "--json")), &shown); err != nil {
				t.Fatal(err)
			}
			if shown.Name != queue || shown.Scheduled != 1 || shown.Settings["LockDuration"] != "PT30S" || shown.Settings["MaxDeliveryCount"] != 7.0 || shown.Settings["Status"] != "SendDisabled" {
				t.Errorf("shown: got %+v", shown)
			}
			equal(do("", "queue", "delete", queue, "--json"), `{"deleted":"`+queue+`"}`+"\n")
			if got := do("", "queue", "list", "--json"); strings.Contains(got, queue) {
				t.Errorf("list after delete: %s", got)
			}
		})
	}
}

// bodies are the lines of a listing that are neither a header nor a property.
func bodies(listing string) string {
	var all []string
	for line := range strings.Lines(listing) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "  ") {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return strings.Join(all, " ")
}

func TestSendTakesAFileAsOneMessage(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	g.command(t, "", "queue", "create", "files")
	path := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(path, []byte("a\nb\xff"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.command(t, "", "send", "files", "--file", path)
	if got := g.command(t, "", "receive", "files", "--json"); !strings.Contains(got, `"body":"YQpi/w==","bodyEncoding":"base64"`) {
		t.Errorf("got %s", got)
	}
}

func TestTheClientSaysThatTheStoreIsAway(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{})
	g := startGateway(t, "--store="+r.URL())
	g.command(t, "", "queue", "create", "q")
	g.command(t, "", "queue", "create", "unused")
	g.command(t, "", "send", "q", "before")
	r.Kill()
	const want = "crosstown: The message store cannot be reached. Try again\n"
	for _, args := range [][]string{{"send", "q", "x"}, {"send", "unused", "x"}, {"queue", "list"}} {
		if code, _, stderr := g.try(t, g.connection, "", args...); code != exitFailure || stderr != want {
			t.Errorf("crosstown %s: got %d %q, want %d %q", strings.Join(args, " "), code, stderr, exitFailure, want)
		}
	}
}

func TestTheClientsErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	g.command(t, "", "queue", "create", "twice")
	wrong := strings.Replace(g.connection, "SAS_KEY_VALUE", "wrong", 1)
	nowhere := "Endpoint=sb://localhost:" + freePort(t) + ";SharedAccessKeyName=x;SharedAccessKey=y;UseDevelopmentEmulator=true"
	cases := []struct {
		name       string
		connection string
		args       []string
		code       int
		want       []string
	}{
		{"no gateway", nowhere, []string{"peek", "q"}, exitFailure, []string{"cannot reach localhost:", "Start it with: crosstown", "--connection-string"}},
		{"no gateway to manage", nowhere, []string{"queue", "list"}, exitFailure, []string{"cannot reach localhost:"}},
		{"no such queue", g.connection, []string{"receive", "nope"}, exitFailure, []string{"nope", "crosstown queue list"}},
		{"no such queue to show", g.connection, []string{"queue", "show", "nope"}, exitFailure, []string{`there is no queue "nope"`}},
		{"no such queue to delete", g.connection, []string{"queue", "delete", "nope"}, exitFailure, []string{"crosstown: The messaging entity 'nope' could not be found: see what there is with: crosstown queue list\n"}},
		{"a queue twice", g.connection, []string{"queue", "create", "twice"}, exitFailure, []string{"The messaging entity 'twice' already exists\n"}},
		{"a name that cannot be", g.connection, []string{"queue", "create", "a b"}, exitFailure, []string{"crosstown: The entity name 'a b' is not allowed because of ' ' at position 1"}},
		{"wrong key", wrong, []string{"peek", "q"}, exitFailure, []string{"crosstown: InvalidSignature: The token has an invalid signature: check the policy"}},
		{"wrong key to manage", wrong, []string{"queue", "list"}, exitFailure, []string{"crosstown: InvalidSignature: The token has an invalid signature: check the policy"}},
		{"too large", g.connection, []string{"send", "twice", strings.Repeat("x", 300_000)}, exitFailure, []string{"too large", "300000 bytes", "--max-message-size-in-kilobytes"}},
		{"no queue named", g.connection, []string{"peek"}, exitUsage, []string{"no queue is named", "EntityPath"}},
		{"no endpoint", "SharedAccessKeyName=x", []string{"peek", "q"}, exitUsage, []string{"Endpoint is missing: write Endpoint=sb://"}},
		{"bad duration", g.connection, []string{"send", "q", "x", "--ttl=soon", "--schedule=never", "--property=p", "--count=0"}, exitUsage, []string{"--ttl: ", "--schedule: ", "--property: ", "--count: "}},
		{"bad settings", g.connection, []string{"queue", "create", "q", "--lock-duration=7m", "--max-delivery-count=x"}, exitUsage, []string{"--lock-duration: ", "--max-delivery-count: "}},
		{"contradicting modes", g.connection, []string{"receive", "q", "--mode=delete", "--abandon", "--wait=x"}, exitUsage, []string{"--mode: ", "--wait: "}},
		{"two outcomes", g.connection, []string{"receive", "q", "--complete", "--abandon"}, exitUsage, []string{"complete", "abandon"}},
		{"unknown flag", g.connection, []string{"peek", "--nope"}, exitUsage, []string{"--nope", "crosstown peek --help"}},
		{"unknown command", g.connection, []string{"pek"}, exitUsage, []string{"pek", "crosstown --help"}},
		{"unknown command for queues", g.connection, []string{"queue", "get", "q"}, exitUsage, []string{`"get"`, "crosstown queue --help"}},
		{"no load", g.connection, []string{"bench", "--size=-1"}, exitUsage, []string{"--url", "--size", "crosstown bench --help"}},
		{"a missing name", g.connection, []string{"queue", "create"}, exitUsage, []string{"crosstown queue create --help"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := g.try(t, c.connection, "", c.args...)
			if code != c.code {
				t.Errorf("exit code: got %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("lacks %q: %s", want, stderr)
				}
			}
		})
	}
}
