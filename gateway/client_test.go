package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
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
			equal(do("", "send", queue, "one", "two", "--property", "colour=red", "--property", "weight=5", "--content-type", "text/plain", "--message-id", "m"), "sent 2 messages to "+queue+"\n")
			equal(do("three\nfour\n", "send", queue), "sent 2 messages to "+queue+"\n")

			var first struct {
				MessageID, ContentType, Body, State string
				Properties                          map[string]any
				SequenceNumber                      int64
				ExpiresAt                           *time.Time
			}
			if err := json.Unmarshal([]byte(do("", "peek", queue, "--count=1", "--json")), &first); err != nil {
				t.Fatal(err)
			}
			if first.Body != "one" || first.MessageID != "m" || first.ContentType != "text/plain" || first.Properties["colour"] != "red" || first.Properties["weight"] != 5.0 || first.State != "active" || first.SequenceNumber != 1 || first.ExpiresAt != nil {
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
			equal(bodies(do("", "receive", queue, "--count", "0", "--wait", "5s", "--mode", "delete")), "three four")

			do("", "send", queue, "x", "--count", "1500")
			equal(do("", "send", queue, "later", "--schedule", "1h", "--json"), `{"sent":1,"sequenceNumbers":[1505]}`+"\n")
			if got := do("", "queue", "list"); !strings.Contains(got, queue) || !strings.Contains(got, "1500") {
				t.Errorf("list: %s", got)
			}
			equal(do("", "queue", "purge", queue, "--yes"), "purged 1500 messages from "+queue+"; messages that stay: 1 scheduled (select states with --state)\n")

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

func TestTheClientsManageTopics(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	do := func(args ...string) string {
		t.Helper()
		return g.command(t, "", args...)
	}
	equal := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	equal(do("topic", "create", "events", "--default-message-time-to-live=1h"), "created topic events\n")
	equal(do("topic", "update", "events", "--user-metadata", "m"), "updated topic events\n")
	equal(do("queue", "create", "copies"), "created queue copies\n")
	equal(do("subscription", "create", "events", "all"), "created subscription events/Subscriptions/all\n")
	equal(do("subscription", "create", "events", "eu", "--sql", "region = @r", "--parameter", "r=eu", "--rule", "first", "--lock-duration=30s", "--max-delivery-count=3"),
		"created subscription events/Subscriptions/eu\n")
	equal(do("subscription", "create", "events", "forwarded", "--forward-to", "copies", "--match-none"), "created subscription events/Subscriptions/forwarded\n")
	equal(do("subscription", "create", "events", "named", "--rule", "own"), "created subscription events/Subscriptions/named\n")
	equal(do("rule", "list", "events", "named", "--json"), `{"name":"own","filter":"true"}`+"\n")
	equal(do("rule", "update", "events", "named", "own", "--property", "a=inf", "--property", "b=1.5", "--property", "c=true"), "updated rule events/Subscriptions/named/Rules/own\n")
	equal(do("rule", "list", "events", "named", "--json"), `{"name":"own","filter":"correlation","properties":{"a":"inf","b":1.5,"c":true}}`+"\n")
	equal(do("subscription", "delete", "events", "named"), "deleted subscription events/Subscriptions/named\n")
	equal(do("subscription", "update", "events", "eu", "--dead-lettering-on-filter-evaluation-exceptions=false"), "updated subscription events/Subscriptions/eu\n")
	equal(do("rule", "create", "events", "eu", "parcels", "--correlation", "label=parcel", "--property", "weight=5", "--property", `code="7"`, "--action", "SET a = 'b'"),
		"created rule events/Subscriptions/eu/Rules/parcels\n")
	equal(do("rule", "update", "events", "eu", "first", "--sql", "region = 'eu'"), "updated rule events/Subscriptions/eu/Rules/first\n")
	equal(do("rule", "list", "events", "eu"), "RULE     FILTER                            ACTION\n"+
		"first    region = 'eu'                     \n"+
		"parcels  label=\"parcel\" code=\"7\" weight=5  SET a = 'b'\n")
	equal(do("rule", "list", "events", "all", "--json"), `{"name":"$Default","filter":"true"}`+"\n")
	equal(do("rule", "show", "events", "forwarded", "$Default", "--json"), `{"name":"$Default","filter":"false"}`+"\n")
	equal(do("rule", "show", "events", "eu", "parcels", "--json"), `{"name":"parcels","filter":"correlation","correlation":{"label":"parcel"},"properties":{"code":"7","weight":5},"action":"SET a = 'b'"}`+"\n")
	equal(do("rule", "show", "events", "eu", "first"), "first   \nfilter  region = 'eu'\naction  \n")
	equal(do("rule", "delete", "events", "forwarded", "$Default"), "deleted rule events/Subscriptions/forwarded/Rules/$Default\n")
	equal(do("topic", "list", "--json"), `{"name":"events","subscriptions":3,"sqlFilters":2,"correlationFilters":1,"scheduled":0,"bytes":0}`+"\n")
	for _, want := range []string{"TOPIC ", "SUBSCRIPTIONS", "events ", "3 "} {
		if got := do("topic", "list"); !strings.Contains(got, want) {
			t.Errorf("topic list lacks %q:\n%s", want, got)
		}
	}
	var shown struct {
		Name     string
		Active   int
		Settings map[string]any
	}
	if err := json.Unmarshal([]byte(do("subscription", "show", "events", "eu", "--json")), &shown); err != nil {
		t.Fatal(err)
	}
	if shown.Name != "events/Subscriptions/eu" || shown.Settings["LockDuration"] != "PT30S" || shown.Settings["MaxDeliveryCount"] != 3.0 || shown.Settings["DeadLetteringOnFilterEvaluationExceptions"] != false {
		t.Errorf("shown: got %+v", shown)
	}
	if got := do("topic", "show", "events"); !strings.Contains(got, "DefaultMessageTimeToLive") || !strings.Contains(got, "PT1H") {
		t.Errorf("topic show: %s", got)
	}

	equal(do("send", "events", "hello", "--property", "region=eu"), "sent 1 message to events\n")
	equal(bodies(do("peek", "events/Subscriptions/eu")), "hello")
	equal(bodies(do("receive", "events/subscriptions/EU")), "hello")
	equal(bodies(do("receive", "events/Subscriptions/all", "--dead-letter")), "hello")
	equal(bodies(do("receive", "events/Subscriptions/all", "--dlq")), "hello")
	if got := do("subscription", "list", "events"); strings.Count(got, "\n") != 4 || !strings.Contains(got, "DEAD-LETTERED") {
		t.Errorf("subscription list: %s", got)
	}
	equal(do("subscription", "delete", "events", "all", "--json"), `{"deleted":"events/Subscriptions/all"}`+"\n")
	equal(do("topic", "delete", "events"), "deleted topic events\n")
	equal(do("topic", "list", "--json"), "")
}

func TestTheClientsReceiveSessions(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	g.command(t, "", "queue", "create", "replies", "--session-aware")
	g.command(t, "", "send", "replies", "one", "two", "--session", "a", "--reply-to", "back", "--reply-to-session", "c", "--to", "you")
	g.command(t, "", "send", "replies", "three", "--session", "b")
	g.command(t, "", "send", "replies", "four", "--session", "")
	if got := g.command(t, "", "peek", "replies", "--session="); !strings.Contains(got, "  session: \"\"\n") {
		t.Errorf("peek into the session with the empty id: %s", got)
	}
	if got := g.command(t, "", "peek", "replies", "--session", "a", "--json"); strings.Count(got, "\n") != 2 ||
		!strings.Contains(got, `"sessionId":"a"`) || !strings.Contains(got, `"replyTo":"back"`) || !strings.Contains(got, `"replyToSessionId":"c"`) || !strings.Contains(got, `"to":"you"`) {
		t.Errorf("peek: %s", got)
	}
	for _, c := range []struct{ args, want string }{
		{"--session=B", "three"},
		{"--session=", "four"},
		{"--next-session --count=0 --wait=5s", "one two"},
	} {
		if got := bodies(g.command(t, "", append([]string{"receive", "replies"}, strings.Fields(c.args)...)...)); got != c.want {
			t.Errorf("receive %s: got %s, want %s", c.args, got, c.want)
		}
	}
	code, _, stderr := g.try(t, g.connection, "", "receive", "replies", "--next-session", "--wait=300ms")
	if code != exitNothing || !strings.Contains(stderr, "crosstown: replies: no session with messages became free within 300ms\n") {
		t.Errorf("no session: got %d %s", code, stderr)
	}
	code, _, stderr = g.try(t, g.connection, "", "send", "replies", "x")
	if code != exitFailure || !strings.Contains(strings.ToLower(stderr), "session") {
		t.Errorf("a message without a session: got %d %s", code, stderr)
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
		if code, _, stderr := g.try(t, g.connection, "", args...); code != exitFailure || strings.TrimPrefix(stderr, "sent 0 messages…\n") != want { // which takes a while
			t.Errorf("crosstown %s: got %d %q, want %d %q", strings.Join(args, " "), code, stderr, exitFailure, want)
		}
	}
}

func TestTheClientsErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	g.command(t, "", "queue", "create", "twice")
	g.command(t, "", "topic", "create", "t")
	g.command(t, "", "subscription", "create", "t", "s")
	g.command(t, "", "queue", "create", "sessions", "--session-aware")
	wrong := strings.Replace(g.connection, "SAS_KEY_VALUE", "wrong", 1)
	nowhere := "Endpoint=sb://localhost:" + freePort(t) + ";SharedAccessKeyName=x;SharedAccessKey=y;UseDevelopmentEmulator=true"
	cases := []struct {
		name       string
		connection string
		args       []string
		code       int
		want       []string
	}{
		{"no gateway", nowhere, []string{"peek", "q"}, exitFailure, []string{"cannot connect to localhost:", "run crosstown there to start a gateway", "--connection-string"}},
		{"no gateway to manage", nowhere, []string{"queue", "list"}, exitFailure, []string{"cannot connect to localhost:"}},
		{"no such queue", g.connection, []string{"receive", "nope"}, exitFailure, []string{"nope", "crosstown queue list"}},
		{"no such queue to show", g.connection, []string{"queue", "show", "nope"}, exitFailure, []string{`queue "nope" does not exist`}},
		{"no such queue to delete", g.connection, []string{"queue", "delete", "nope"}, exitFailure, []string{"crosstown: The messaging entity 'nope' could not be found: list the names with: crosstown queue list, topic list, subscription list TOPIC, or rule list TOPIC SUBSCRIPTION\n"}},
		{"a queue twice", g.connection, []string{"queue", "create", "twice"}, exitFailure, []string{"The messaging entity 'twice' already exists\n"}},
		{"a name that cannot be", g.connection, []string{"queue", "create", "a b"}, exitFailure, []string{"crosstown: The entity name 'a b' is not allowed because of ' '"}},
		{"wrong key", wrong, []string{"peek", "q"}, exitFailure, []string{"crosstown: InvalidSignature: The token has an invalid signature: check the policy"}},
		{"wrong key to manage", wrong, []string{"queue", "list"}, exitFailure, []string{"crosstown: InvalidSignature: The token has an invalid signature: check the policy"}},
		{"too large", g.connection, []string{"send", "twice", strings.Repeat("x", 300_000)}, exitFailure, []string{"larger than the entity accepts", "300000 bytes", "--max-message-size-in-kilobytes"}},
		{"no entity named", g.connection, []string{"peek"}, exitUsage, []string{"no entity is specified", "EntityPath"}},
		{"no endpoint", "SharedAccessKeyName=x", []string{"peek", "q"}, exitUsage, []string{"Endpoint is missing: write Endpoint=sb://"}},
		{"bad duration", g.connection, []string{"send", "q", "x", "--ttl=soon", "--schedule=never", "--property=p", "--count=0"}, exitUsage, []string{"--ttl is ", "--schedule is ", "--property is ", "--count is "}},
		{"bad settings", g.connection, []string{"queue", "create", "q", "--lock-duration=25h", "--max-delivery-count=x"}, exitUsage, []string{"--lock-duration: ", "--max-delivery-count: "}},
		{"contradicting modes", g.connection, []string{"receive", "q", "--mode=delete", "--abandon", "--wait=x"}, exitUsage, []string{"--mode ", "--wait is "}},
		{"two outcomes", g.connection, []string{"receive", "q", "--complete", "--abandon"}, exitUsage, []string{"complete", "abandon"}},
		{"a subscription as a queue", g.connection, []string{"queue", "show", "t/Subscriptions/s"}, exitUsage, []string{"use: crosstown subscription show t s"}},
		{"a refusal that the SDK does not know", g.connection, []string{"send", "twice", "x", "--message-id", strings.Repeat("m", 200)}, exitFailure, []string{"crosstown: MessageId has 200 characters: at most 128 are allowed\n"}},
		{"no answer to a confirmation", g.connection, []string{"queue", "purge", "twice"}, exitUsage, []string{"this would permanently remove all messages of twice that are active: confirm with --yes"}},
		{"a purge of no state", g.connection, []string{"queue", "purge", "twice", "--state=some", "--yes"}, exitUsage, []string{`--state: "some" is unknown`}},
		{"sessions without one", g.connection, []string{"receive", "sessions"}, exitFailure, []string{"the entity 'sessions' requires sessions: specify a session with --session ID"}},
		{"an endless abandon", g.connection, []string{"receive", "twice", "--follow", "--abandon"}, exitUsage, []string{"crosstown tail"}},
		{"a reason for nothing", g.connection, []string{"receive", "twice", "--reason=x"}, exitUsage, []string{"--dead-letter"}},
		{"a condition that cannot be parsed", g.connection, []string{"deadletter", "list", "twice", "--where=a = = b", "--older-than=soon", "--property==x"}, exitUsage, []string{"--where: position 5: ", "--older-than is ", "--property is "}},
		{"what can be chosen of messages", g.connection, []string{"scheduled", "cancel", "twice", "--all", "--property=a"}, exitUsage, []string{"--all"}},
		{"rules of no topic", g.connection, []string{"rule", "test", "nope"}, exitFailure, []string{"'nope' could not be found: list the names with: crosstown topic list"}},
		{"a broker property that there is not", g.connection, []string{"rule", "test", "t", "--broker=size=1"}, exitUsage, []string{"--broker is "}},
		{"unknown flag", g.connection, []string{"peek", "--nope"}, exitUsage, []string{"--nope", "crosstown peek --help"}},
		{"unknown command", g.connection, []string{"pek"}, exitUsage, []string{"pek", "did you mean peek?", "crosstown --help"}},
		{"a command almost known", g.connection, []string{"queue", "lst"}, exitUsage, []string{"did you mean list?"}},
		{"an empty name", g.connection, []string{"queue", "create", ""}, exitUsage, []string{"a name is empty: write crosstown queue create NAME"}},
		{"no entity to explain", g.connection, []string{"explain", "orders"}, exitUsage, []string{"crosstown explain MESSAGE-ID --entity ENTITY"}},
		{"unknown command for queues", g.connection, []string{"queue", "get", "q"}, exitUsage, []string{`"get"`, "crosstown queue --help"}},
		{"no load", g.connection, []string{"bench", "--size=-1", "--settle=x"}, exitUsage, []string{"--settle", "--size", "crosstown bench --help"}},
		{"no such topic to show", g.connection, []string{"topic", "show", "nope"}, exitFailure, []string{`topic "nope" does not exist`}},
		{"no such subscription to show", g.connection, []string{"subscription", "show", "t", "nope"}, exitFailure, []string{`subscription "t/Subscriptions/nope" does not exist`}},
		{"no such rule to show", g.connection, []string{"rule", "show", "t", "s", "nope"}, exitFailure, []string{`rule "t/Subscriptions/s/Rules/nope" does not exist`}},
		{"a subscription of no topic", g.connection, []string{"subscription", "create", "nope", "s"}, exitFailure, []string{"crosstown: The messaging entity 'nope' could not be found"}},
		{"a rule that cannot be parsed", g.connection, []string{"rule", "create", "t", "s", "r", "--sql", "a = = b"}, exitFailure, []string{"crosstown: Rule 'r': SQL filter, position 5: "}},
		{"an action that cannot be parsed", g.connection, []string{"subscription", "create", "t", "x", "--action", "DROP a"}, exitFailure, []string{"SQL action, position 1: "}},
		{"contradicting filters", g.connection, []string{"rule", "create", "t", "s", "r", "--sql=a=1", "--correlation=size=1", "--property=p", "--action-parameter=b=1"}, exitUsage, []string{"use either --sql, or --match-none, or --correlation", "--action-parameter requires --action"}},
		{"bad conditions", g.connection, []string{"rule", "create", "t", "s", "r", "--correlation=size=1", "--property=p"}, exitUsage, []string{`--correlation is "size=1": write NAME=VALUE with one of the names correlation-id`, `--property is "p": write NAME=VALUE`}},
		{"a forwarding that cannot be", g.connection, []string{"queue", "create", "q", "--forward-to=nope"}, exitFailure, []string{"ForwardTo is 'sb://localhost:", "/nope', which is not a queue or topic of this namespace"}},
		{"two sessions", g.connection, []string{"receive", "q", "--session=a", "--next-session", "--dlq"}, exitUsage, []string{"use --session or --next-session, not both"}},
		{"sessions of dead letters", g.connection, []string{"peek", "q", "--session=a", "--dlq"}, exitUsage, []string{"a dead-letter queue has no sessions"}},
		{"unknown command for topics", g.connection, []string{"topic", "get"}, exitUsage, []string{`"get"`, "crosstown topic --help"}},
		{"a missing subscription", g.connection, []string{"subscription", "create", "t"}, exitUsage, []string{"crosstown subscription create --help"}},
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

// Queues and topics have one kind of path, so a command for one could delete the other.
func TestACommandForTopicsLeavesQueuesAlone(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	g.command(t, "", "queue", "create", "q")
	g.command(t, "", "topic", "create", "t")
	for _, c := range []struct{ kind, name, want string }{
		{"topic", "q", `"q" is a queue: use the command crosstown queue`},
		{"queue", "t", `"t" is a topic: use the command crosstown topic`},
	} {
		for _, args := range [][]string{{"show", c.name}, {"update", c.name, "--user-metadata", "x"}, {"delete", c.name}} {
			code, _, stderr := g.try(t, g.connection, "", append([]string{c.kind}, args...)...)
			if code != exitFailure || !strings.Contains(stderr, c.want) {
				t.Errorf("%s %v: got %d %q, want %q", c.kind, args, code, stderr, c.want)
			}
		}
	}
	if list := g.command(t, "", "queue", "list") + g.command(t, "", "topic", "list"); !strings.Contains(list, "\nq ") || !strings.Contains(list, "\nt ") {
		t.Errorf("one is gone:\n%s", list)
	}
}

// What receive prints raw is the body, byte for byte, in a file or not; a message stays where the file may not be
// written.
func TestReceivePrintsBodiesByteForByte(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store", "memory")
	do := func(want int, args ...string) string {
		t.Helper()
		code, stdout, stderr := g.try(t, g.connection, "", args...)
		if code != want {
			t.Fatalf("crosstown %s: exit code %d, want %d\n%s", strings.Join(args, " "), code, want, stderr)
		}
		return stdout
	}
	dir := t.TempDir()
	body := []byte{0, 255, '\n', 27, '[', 'J', '>'}
	sent, got := filepath.Join(dir, "sent"), filepath.Join(dir, "got")
	if err := os.WriteFile(sent, body, 0o600); err != nil {
		t.Fatal(err)
	}
	do(exitOK, "queue", "create", "orders")
	do(exitOK, "send", "orders", "--file", sent, "--count", "3")
	if out := do(exitOK, "receive", "orders", "--raw"); out != string(body) {
		t.Errorf("got %q, want %q", out, body)
	}
	do(exitOK, "receive", "orders", "--raw", "--output", got)
	if text, err := os.ReadFile(got); err != nil || string(text) != string(body) {
		t.Errorf("got %q, %v, want %q", text, err, body)
	}
	do(exitUsage, "receive", "orders", "--raw", "--output", got)
	do(exitFailure, "receive", "orders", "--raw", "--output", filepath.Join(dir, "none", "got"))
	do(exitUsage, "receive", "orders", "--raw", "--json")
	do(exitOK, "receive", "orders", "--json", "--output", got, "--force")
	var line struct{ Body, BodyEncoding string }
	if text, err := os.ReadFile(got); err != nil || json.Unmarshal(text, &line) != nil || line.BodyEncoding != "base64" {
		t.Errorf("got %q, %v", text, err)
	}
	do(exitNothing, "receive", "orders", "--wait", "10ms")
}

// export and config print are one document of JSON with --json, which is a configuration file too.
func TestTheConfigurationIsOneDocumentOfJSON(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store", "memory")
	for _, args := range [][]string{{"topic", "create", "events"}, {"subscription", "create", "events", "eu", "--sql", "amount > 100 AND a <> 'b&c'"}} {
		if code, _, stderr := g.try(t, g.connection, "", args...); code != exitOK {
			t.Fatal(stderr)
		}
	}
	for _, args := range [][]string{{"export", "--json"}, {"config", "print", "--json"}} {
		code, stdout, stderr := g.try(t, g.connection, "", args...)
		if code != exitOK {
			t.Fatal(stderr)
		}
		var document map[string]any
		if err := json.Unmarshal([]byte(stdout), &document); err != nil || len(document) == 0 || args[0] == "export" && !strings.Contains(stdout, "amount > 100 AND a <> 'b&c'") {
			t.Errorf("%v: %v in\n%s", args, err, stdout)
		}
		file := filepath.Join(t.TempDir(), "crosstown.json")
		if err := os.WriteFile(file, []byte(stdout), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := g.try(t, g.connection, "", "config", "check", file); code != exitOK {
			t.Errorf("%v: %s", args, stderr)
		}
	}
}
