package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

var updateGolden = flag.Bool("update", false, "write what commands print into testdata")

const refusingEntities = `
queues:
  - {name: orders}
  - {name: empty}
  - {name: locked, lock-duration: 5m}
  - {name: full, max-size-in-megabytes: 1}
  - {name: sessions, requires-session: true}
  - {name: held, requires-session: true, lock-duration: 5m}
  - {name: no-send, status: SendDisabled}
  - {name: no-receive, status: ReceiveDisabled}
  - {name: off, status: Disabled}
  - {name: parts, enable-partitioning: true}
  - {name: deferred, lock-duration: 5m}
topics:
  - name: events
    subscriptions: [{name: all}, {name: in-sessions, requires-session: true}]
policies:
  - {name: RootManageSharedAccessKey, key: SAS_KEY_VALUE, rights: [Manage, Send, Listen]}
  - {name: sender, key: s, rights: [Send]}
  - {name: listener, key: l, rights: [Listen]}
`

// refusals are command lines that fail, by the connection that they use: root, sender, listener, wrong-key,
// wrong-policy, nowhere, foreign (a broker that is not a gateway), or untrusted.
const refusals = `
root      send
root      send orders x --ttl=soon --schedule=never --property=p --count=0
root      send orders x --count=-1
root      send orders x --ttl=0s
root      send orders x --ttl=-5s
root      send orders x --ttl=1us
root      send orders x --ttl=200000d
root      send orders x --ttl=9000000000h
root      send orders x --records
root      send orders --records --subject=s
root      send orders x --file=f
root      send orders --file=/nowhere/body
root      send orders --records --file=/nowhere/lines
root      send orders x --nope
root      send orders x --schedule=9000000000h
root      send orders x --partition-key=a --session=b
root      send nope x
root      send events/Subscriptions/all x
root      send orders/$DeadLetterQueue x
root      send orders/$management x
root      send sessions x
root      send sessions x --schedule=1h
root      send no-send x
root      send no-send x --schedule=1h
root      send off x
root      send full LARGE --count=12
root      send full x
root      send full x --schedule=1h
root      send orders HUGE
root      send orders HUGE --schedule=1h
root      send events HUGE
root      send orders x --message-id=LONG
root      send orders x --message-id=LONG --schedule=1h
root      send orders x --session=LONG
root      send orders x --property=p=HUGE
root      send parts x --partition-key=a --session=b
sender    send nope x
listener  send orders x
listener  send orders x --schedule=1h
wrong-key send orders x
wrong-policy send orders x
nowhere   send orders x
untrusted send orders x
foreign   send nope x
root      receive --nope
root      receive orders --count=-1 --wait=never --mode=some
root      receive orders --mode=delete --abandon --reason=x
root      receive orders --reason=x
root      receive orders --complete --abandon
root      receive orders --follow --abandon
root      receive orders --follow --wait=1s
root      receive orders --session=a --next-session
root      receive orders --session=a --dlq
root      receive orders extra
root      receive
root      receive nope
root      receive nope --dlq
root      receive nope --session=a
root      receive nope --next-session
root      receive events
root      receive events/Subscriptions/nope
root      receive orders/$management
root      receive orders/$management --session=a
root      receive empty --wait=100ms
root      receive empty --wait=100ms --json
root      receive empty --wait=100ms --dlq
root      receive empty --wait=100ms --mode=delete
root      receive empty --wait=100ms --count=0
root      receive events/Subscriptions/all --wait=100ms
root      receive locked --wait=100ms
root      receive sessions
root      receive sessions --dlq --wait=100ms
root      receive events/Subscriptions/in-sessions
root      receive sessions --next-session --wait=100ms
root      receive sessions --session=a --wait=100ms
root      receive held --session=a --wait=100ms
root      receive held --next-session --wait=100ms
root      receive orders --session=a
root      receive orders --next-session --wait=100ms
root      receive orders/$DeadLetterQueue --session=a
root      receive no-receive
root      receive no-receive --session=a
root      receive no-receive --next-session
root      receive off
root      receive sessions --session=LONG
sender    receive orders
sender    receive sessions --next-session
listener  receive nope
listener  receive sessions
wrong-key receive orders
wrong-key receive orders --next-session
wrong-policy receive orders
nowhere   receive orders
nowhere   receive orders --next-session
untrusted receive orders
foreign   receive nope
foreign   receive sessions
foreign   receive empty --wait=100ms
foreign   receive sessions --next-session --wait=100ms
root      deferred receive nope
root      deferred receive empty
root      deferred receive empty --sequence-number=7
root      deferred receive empty --where=a==b
root      deferred receive empty --count=-1
root      deferred receive empty --reason=x
root      deferred receive empty --complete --dead-letter
root      deferred receive deferred
root      deferred receive no-receive
sender    deferred receive deferred
wrong-key deferred receive deferred
nowhere   deferred receive deferred
untrusted deferred receive deferred
foreign   queue purge nope --yes
foreign   queue purge no-receive --yes
foreign   queue purge deferred --state=deferred --yes
sender    queue purge orders --yes
nowhere   queue purge orders --yes
root      queue purge deferred --state=deferred --yes
`

// Scripts read exit codes, and people texts: both stay as they are when commands use another client.
func TestTheTextsOfRefusalsStay(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--config", write(t, "c.yaml", refusingEntities))
	r := g.golden(t)
	g.command(t, "", "send", "locked", "x")
	g.command(t, "", "send", "held", "x", "--session=a")
	hold, err := g.sdk(t).NewReceiverForQueue("locked", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hold.ReceiveMessages(t.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := g.sdk(t).AcceptSessionForQueue(t.Context(), "held", "a", nil); err != nil {
		t.Fatal(err)
	}
	g.lockDeferred(t, "deferred")

	long := strings.NewReplacer("LARGE", strings.Repeat("x", 200<<10), "HUGE", strings.Repeat("x", 300_000), "LONG", strings.Repeat("m", 200))
	r.volatile = append(r.volatile, strings.Repeat("x", 300_000), "HUGE", strings.Repeat("m", 200), "LONG")
	var got strings.Builder
	for line := range strings.Lines(strings.TrimSpace(refusals)) {
		got.WriteString(r.try(t, line, long.Replace))
	}
	compareGolden(t, "command-refusals.txt", got.String())
}

// golden runs command lines by the names of connections.
type golden struct {
	*gateway
	connections map[string]string
	volatile    []string // what differs in each run, and what the golden file has for it
}

func (g *gateway) golden(t *testing.T) *golden {
	t.Helper()
	policy := func(name, key string) string {
		return strings.NewReplacer(config.DevPolicy, name, config.DevKey, key).Replace(g.connection)
	}
	nowhere := freePort(t)
	r := &golden{gateway: g, connections: map[string]string{
		"sender": policy("sender", "s"), "listener": policy("listener", "l"), "owner": policy("owner", "o"), "wrong-key": policy(config.DevPolicy, "wrong"), "wrong-policy": policy("nobody", "x"),
		"nowhere": "Endpoint=sb://localhost:" + nowhere + ";SharedAccessKeyName=x;SharedAccessKey=y;UseDevelopmentEmulator=true",
	}, volatile: []string{":" + nowhere, ":NOWHERE"}}
	r.connect("root", "GATEWAY", g.connection)
	r.connect("foreign", "FOREIGN", g.notOurs(t))
	r.connect("untrusted", "TLS", g.secure)
	return r
}

// connect adds a connection, whose host the golden file has as shown.
func (r *golden) connect(name, shown, connection string) {
	r.connections[name] = connection
	r.volatile = append(r.volatile, hostOf(connection), shown)
}

// try runs a line: the name of a connection, and words, each after replace. It returns the line with what was printed.
func (r *golden) try(t *testing.T, line string, replace func(string) string) string {
	t.Helper()
	words := strings.Fields(line)
	var args []string
	for _, word := range words[1:] {
		args = append(args, replace(word))
	}
	if words[0] == "untrusted" {
		args = append(args, "--data="+t.TempDir())
	}
	code, out, errs := r.gateway.try(t, r.connections[words[0]], "", args...)
	var got strings.Builder
	fmt.Fprintf(&got, "%s\n  exit %d\n", strings.TrimSpace(line), code)
	for said := range strings.Lines(requested.ReplaceAllString(varying.ReplaceAllString(strings.NewReplacer(r.volatile...).Replace(out+errs), "$1 SIZE"), "REQUEST: ")) {
		got.WriteString(strings.TrimRight("  "+said, "\n ") + "\n")
	}
	return got.String()
}

// compareGolden compares a text with a file of testdata, or writes it with -update.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *updateGolden {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wanted := strings.Split(string(want), "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(wanted) || line != wanted[i] {
			t.Fatalf("%s:%d is not\n%s\nAll that is printed:\n%s", path, i+1, line, got)
		}
	}
}

// varying is the number of bytes the encoding of a message has, which is a matter of the client.
var varying = regexp.MustCompile(`(has|in bytes:) \d{6,}`)

// requested is the request that an error of HTTP begins with, which is a matter of the client, too.
var requested = regexp.MustCompile(`\b[A-Z][a-z]+ "https?://[^"]*": `)

// hostOf is the host and port of a connection string.
func hostOf(connection string) string {
	_, rest, _ := strings.Cut(connection, "sb://")
	host, _, _ := strings.Cut(rest, ";")
	return strings.TrimSuffix(host, "/")
}

// lockDeferred sends a message, defers it and receives it again.
func (g *gateway) lockDeferred(t *testing.T, queue string) {
	t.Helper()
	g.deferOne(t, queue, "")
	r, err := g.sdk(t).NewReceiverForQueue(queue, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReceiveDeferredMessages(t.Context(), []int64{1}, nil); err != nil {
		t.Fatal(err)
	}
}
