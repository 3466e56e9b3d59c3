package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// load writes files (name, text, …) to a directory, which $DIR in arguments and
// environment stands for, and loads.
func load(t *testing.T, files map[string]string, environ []string, args ...string) (*config.Config, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fill := func(texts []string) []string {
		texts = slices.Clone(texts)
		for i := range texts {
			texts[i] = strings.ReplaceAll(texts[i], "$DIR", dir)
		}
		return texts
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.Bind(flags)
	if err := flags.Parse(fill(args)); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(flags, append(fill(environ), "HOME=/home/somebody"))
	if err != nil {
		err = errors.New(strings.ReplaceAll(err.Error(), dir+"/", ""))
	}
	return c, err
}

func mustLoad(t *testing.T, files map[string]string, environ []string, args ...string) *config.Config {
	t.Helper()
	c, err := load(t, files, environ, args...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOmittedSettingsGetTheDefaults(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, nil, nil)
	want := config.Default()
	want.Data = "/home/somebody/.local/share/crosstown"
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	if !c.HasDevKey() {
		t.Error("the development key is missing")
	}
}

func TestFlagsBeatTheEnvironmentWhichBeatsTheFile(t *testing.T) {
	t.Parallel()
	files := map[string]string{"c.yaml": `
namespace: from-file
store: memory
listen: [127.0.0.1:1, 127.0.0.1:2]
log: {level: debug, format: json}
drain-timeout: 1s
amqp: {max-links: 7, max-frame-size: 4096}
websocket: {max-feeds: 9, max-frame: 2097152, origins: ["https://a.example"]}
policies:
  - {name: app, key: file, rights: Send}
  - {name: ops, key: file, rights: [Listen, Send]}
`}
	environ := []string{
		"CROSSTOWN_CONFIG=$DIR/c.yaml", "CROSSTOWN_STORE=memory", "CROSSTOWN_DRAIN_TIMEOUT=PT2S", "CROSSTOWN_LOG_LEVEL=warn",
		"CROSSTOWN_AMQP_MAX_LINKS=8", "CROSSTOWN_WEBSOCKET_MAX_FEEDS=10", "CROSSTOWN_POLICY=app=env:Listen;env=abc==:Manage", "CROSSTOWN_DEV_KEY_ANYWHERE=true",
	}
	c := mustLoad(t, files, environ, "--drain-timeout=3s", "--listen", "127.0.0.1:3", "--listen=127.0.0.1:4", "--policy", "app=flag:Send,Listen")
	want := config.Default()
	want.Namespace, want.Store, want.DrainTimeout = "from-file", "memory", 3*time.Second
	want.Data = "/home/somebody/.local/share/crosstown"
	want.Listen = []string{"127.0.0.1:3", "127.0.0.1:4"}
	want.Log = config.Log{Level: "warn", Format: "json"}
	want.AMQP = config.AMQP{MaxLinks: 8, MaxFrameSize: 4096}
	want.WebSocket = config.WebSocket{MaxFeeds: 10, MaxFrame: 2 << 20, Origins: []string{"https://a.example"}}
	want.DevKeyAnywhere = true
	want.Policies = []config.Policy{
		{Name: "ops", Key: "file", Rights: core.Listen | core.Send},
		{Name: "env", Key: "abc==", Rights: core.AllRights},
		{Name: "app", Key: "flag", Rights: core.Listen | core.Send},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

func TestOriginsAreChecked(t *testing.T) {
	t.Parallel()
	files := map[string]string{"c.yaml": "websocket: {origins: [https://a.example, 'http://localhost:*', '*']}"}
	c := mustLoad(t, files, nil, "--config=$DIR/c.yaml")
	if got, want := c.WebSocket.Origins, []string{"https://a.example", "http://localhost:*", "*"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err := load(t, nil, nil, "--websocket-origins=https://a.example", "--websocket-origins=b.example")
	if err == nil || !strings.Contains(err.Error(), `"b.example" is not an origin`) {
		t.Errorf("got %v, want that b.example is not an origin", err)
	}
}

func TestEverythingThatIsWrongIsReportedAtOnceWithItsPlace(t *testing.T) {
	t.Parallel()
	files := map[string]string{"c.yaml": `namespace: bad_name
lsiten: [127.0.0.1:1]
store: 5
log:
  level: loud
  levle: info
drain-timeout: 30
partitions: many
amqp:
  max-links: 0
  max-frame-size: 1.5
tls: {cert: a.pem}
policies:
  - name: app
    key: k
    rights: Sned
  - name: app
    key: k
    rights: Send
  - rights: Send
queues:
  - name: a//b
  - name: orders
    lock-duration: 25h
    max-delivery-count: 0
    lock-durration: 1m
    policies: [{name: x, key: "a b", rights: Send}]
  - name: ORDERS
    status: Closed
    requires-session: maybe
namespace: twice
websocket: {max-connections: 0, max-feeds: x, max-frame: 1000}
`}
	environ := []string{"CROSSTOWN_LOG_FORMAT=xml", "CROSSTOWN_LOG_LEVLE=info", "CROSSTOWN_POLICY=nope"}
	_, err := load(t, files, environ, "--config=$DIR/c.yaml", "--listen=nonsense", "--dev-key-anywhere=perhaps")
	if err == nil {
		t.Fatal("loaded")
	}
	want := []string{
		`--dev-key-anywhere: perhaps is neither true nor false`,
		`--listen: "nonsense" is not an address to listen on: write host:port`,
		`c.yaml:1: namespace: 'bad_name' is not a valid namespace name`,
		`c.yaml:2: lsiten: the setting does not exist: did you mean listen?`,
		`c.yaml:3: store: 5 is not text: put it in quotes`,
		`c.yaml:5: log.level: "loud" is unknown: use one of debug, info, warn, error`,
		`c.yaml:6: log.levle: the setting does not exist: did you mean level?`,
		`c.yaml:7: drain-timeout: 30 has no unit: write it like 90s`,
		`c.yaml:8: partitions: many is not a whole number`,
		`c.yaml:10: amqp.max-links: 0 is out of range: use 1 to`,
		`c.yaml:11: amqp.max-frame-size: 1.5 is not a whole number`,
		`c.yaml:12: tls.cert: the setting requires tls.key`,
		`c.yaml:16: policies[0].rights: "Sned": "Sned" is not a right: use Send, Listen or Manage`,
		`c.yaml:17: policies[1]: policy "app" is listed twice`,
		`c.yaml:20: policies[2].name: "" is not a valid policy name`,
		`c.yaml:22: queues[0].name: The entity name 'a//b' has an empty path segment`,
		`c.yaml:24: queues[1].lock-duration: LockDuration is 25h0m0s: the supplied time exceeds the allowed maximum of 24h0m0s.`,
		`c.yaml:25: queues[1].max-delivery-count: MaxDeliveryCount is 0: it must be between 1 and 2147483647.`,
		`c.yaml:26: queues[1].lock-durration: the setting does not exist: did you mean lock-duration?`,
		`c.yaml:27: queues[1].policies[0].key: the key of policy "x" contains a space`,
		`c.yaml:28: queues[2].name: "ORDERS" is listed twice (queues and topics share one set of names`,
		`c.yaml:29: queues[2].status: Closed is not a status: write Active`,
		`c.yaml:30: queues[2].requires-session: maybe is neither true nor false`,
		`c.yaml:31: namespace: the setting is set twice, first on line 1: keep one`,
		`c.yaml:32: websocket.max-feeds: x is not a whole number`,
		`c.yaml:32: websocket.max-connections: 0 is out of range: use 1 to`,
		`c.yaml:32: websocket.max-frame: 1000 is out of range: use 1048576 to`,
		`CROSSTOWN_LOG_FORMAT: "xml" is unknown: use one of text, json`,
		`CROSSTOWN_LOG_LEVLE: no setting has this variable: did you mean CROSSTOWN_LOG_LEVEL?`,
		`CROSSTOWN_POLICY: the policy "nope" is incomplete: write NAME=KEY:RIGHTS`,
	}
	got := strings.Split(err.Error(), "\n")
	for i := range max(len(got), len(want)) {
		g, w := "(nothing)", "(nothing)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if !strings.HasPrefix(g, w) {
			t.Errorf("line %d:\n got %s\nwant %s", i, g, w)
		}
	}
}

func TestAFileThatCannotBeReadIsReportedWhereItWasNamed(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		files   map[string]string
		environ []string
		args    []string
		want    string
	}{
		{"missing, by flag", nil, nil, []string{"--config=$DIR/none.yaml"}, "--config: open none.yaml: no such file or directory: specify a file that exists"},
		{"missing, by variable", nil, []string{"CROSSTOWN_CONFIG=$DIR/none.yaml"}, nil, "CROSSTOWN_CONFIG: open none.yaml: no such"},
		{"a directory", nil, nil, []string{"--config=$DIR/."}, "--config: read "},
		{"no YAML", map[string]string{"c.yaml": "store: memory\n\tlog: x\n"}, nil, []string{"--config=$DIR/c.yaml"}, "c.yaml:2: yaml: line 2:"},
		{"a list", map[string]string{"c.yaml": "- store\n"}, nil, []string{"--config=$DIR/c.yaml"}, "c.yaml:1: the file is not a mapping"},
		{"not UTF-8", map[string]string{"c.yaml": "store: \"\xff\"\n"}, nil, []string{"--config=$DIR/c.yaml"}, "c.yaml: the file is not text in UTF-8: save it in UTF-8"},
		{"two documents", map[string]string{"c.yaml": "store: memory\n---\nstore: auto\n"}, nil, []string{"--config=$DIR/c.yaml"}, "c.yaml: the file contains more than one YAML document"},
		{"emulator file missing", nil, nil, []string{"--emulator-config=$DIR/none.json"}, "--emulator-config: open none.json: no such"},
		{"emulator file without UserConfig", map[string]string{"c.json": `{"Namespaces": [{"Name": "ns"}]}`}, nil, []string{"--emulator-config=$DIR/c.json"}, "c.json: the file has no UserConfig: write"},
		{"a window below the emulator's", map[string]string{"c.json": `{"UserConfig": {"Namespaces": [{"Queues": [{"Name": "q", "Properties": {"DuplicateDetectionHistoryTimeWindow": "PT4S"}}]}]}}`}, nil, []string{"--emulator-config=$DIR/c.json"}, "c.json: UserConfig.Namespaces[0].Queues[0].Properties.DuplicateDetectionHistoryTimeWindow: DuplicateDetectionHistoryTimeWindow is 4s: it must be at least 5s"},
		{"a window below the service's", map[string]string{"c.json": `{"UserConfig": {"Namespaces": [{"Queues": [{"Name": "q", "Properties": {"DuplicateDetectionHistoryTimeWindow": "PT5S"}}]}]}}`}, nil, []string{"--emulator-config=$DIR/c.json", "--strict"}, "c.json: UserConfig.Namespaces[0].Queues[0]: DuplicateDetectionHistoryTimeWindow is 5s: in the Standard tier it must be at least 20s"},
		{"emulator file no JSON", map[string]string{"c.json": "{\n\"UserConfig\": x}"}, nil, []string{"--emulator-config=$DIR/c.json"}, "c.json:2: invalid character 'x'"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, c.files, c.environ, c.args...)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Fatalf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestAnEmptyFileAndEmptySettingsSayNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing\n", "listen:\nlog:\nqueues:\n"} {
		c := mustLoad(t, map[string]string{"c.yaml": text}, []string{"CROSSTOWN_STORE="}, "--config=$DIR/c.yaml")
		if !slices.Equal(c.Listen, config.Default().Listen) || c.Store != "auto" {
			t.Errorf("%q: got %+v", text, c)
		}
	}
}

func TestVariablesThatOrchestratorsMakeUpAreLeftAlone(t *testing.T) {
	t.Parallel()
	mustLoad(t, nil, []string{
		"CROSSTOWN_SERVICE_HOST=10.0.0.1", "CROSSTOWN_SERVICE_PORT=5672", "CROSSTOWN_SERVICE_PORT_AMQP=5672", "CROSSTOWN_PORT=tcp://10.0.0.1:5672",
		"CROSSTOWN_PORT_5672_TCP=tcp://10.0.0.1:5672", "CROSSTOWN_PORT_5672_TCP_ADDR=10.0.0.1", "CROSSTOWN_REDIS_SERVICE_HOST=10.0.0.2",
		"CROSSTOWN_CONNECTION_STRING=Endpoint=sb://x",
	})
}

func TestTheDevelopmentKeyIsRefusedWhereOthersCanReachIt(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		args    []string
		refused bool
	}{
		{"loopback", []string{"--listen=127.0.0.1:1,[::1]:1,localhost:2"}, false},
		{"all interfaces", []string{"--listen=:5672"}, true},
		{"all interfaces, spelt out", []string{"--listen=0.0.0.0:5672"}, true},
		{"one of two", []string{"--listen=127.0.0.1:1", "--listen=192.0.2.1:1"}, true},
		{"meant so", []string{"--listen=:5672", "--dev-key-anywhere"}, false},
		{"another key", []string{"--listen=:5672", "--policy=RootManageSharedAccessKey=other:Manage"}, false},
		{"another policy, so it is left out", []string{"--listen=:5672", "--policy=app=other:Manage"}, false},
		{"the same key under another name", []string{"--listen=:5672", "--policy=RootManageSharedAccessKey=other:Manage", "--policy=app=SAS_KEY_VALUE:Send"}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			loaded, err := load(t, nil, nil, c.args...)
			if !c.refused {
				if err != nil {
					t.Fatal(err)
				}
				if reached := !strings.Contains(c.args[0], "127.0.0.1"); reached && c.name != "meant so" && loaded.HasDevKey() {
					t.Error("the development key opens the namespace")
				}
				return
			}
			if err == nil {
				t.Fatal("loaded")
			}
			for _, remedy := range []string{"--listen: ", "--policy RootManageSharedAccessKey:Send,Listen,Manage", "127.0.0.1 only", "--dev-key-anywhere"} {
				if !strings.Contains(err.Error(), remedy) {
					t.Errorf("%v: lacks %q", err, remedy)
				}
			}
		})
	}
}

func TestTheConsoleIsOnWhereOnlyThisMachineReachesTheGateway(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want bool
	}{
		{nil, true},
		{[]string{"--console=off"}, false},
		{[]string{"--listen=:1", "--dev-key-anywhere"}, false},
		{[]string{"--listen=127.0.0.1:1,192.0.2.1:1", "--dev-key-anywhere"}, false},
		{[]string{"--listen=:1", "--dev-key-anywhere", "--console=on"}, true},
	} {
		if got := mustLoad(t, map[string]string{"c.yaml": "console: auto"}, []string{"CROSSTOWN_CONFIG=$DIR/c.yaml"}, c.args...).HasConsole(); got != c.want {
			t.Errorf("%q: got %v, want %v", c.args, got, c.want)
		}
	}
	if !mustLoad(t, map[string]string{"c.yaml": "console: on"}, []string{"CROSSTOWN_CONFIG=$DIR/c.yaml"}).HasConsole() {
		t.Error("console: on in a file is off")
	}
	if _, err := load(t, nil, nil, "--console=perhaps"); err == nil || !strings.HasPrefix(err.Error(), `--console: "perhaps" is unknown: use one of auto, on, off`) {
		t.Errorf("got %v", err)
	}
}

func TestStores(t *testing.T) {
	t.Parallel()
	for _, store := range []string{
		"auto", "memory", "redis://u:p@host:1/2", "rediss://host", "redis://one:1,two:2", "redis+sentinel://one:1,two:2/master", "unix:///run/redis.sock",
	} {
		if c := mustLoad(t, nil, nil, "--store="+store); c.Store != store {
			t.Errorf("%s: got %s", store, c.Store)
		}
	}
	for store, want := range map[string]string{
		"mysql://host": "--store: a URL that begins with mysql:// does not name a store: use auto", "disk": `--store: "disk" is not a store: use auto`,
		"user:secret@host": "--store: the value is not a store: use auto", "spawn": "--store: the gateway cannot start a Redis: run redis-server --dir ",
	} {
		_, err := load(t, nil, nil, "--store="+store)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %s", store, err, want)
		}
	}
}

func TestDeclaredQueuesBecomeSettings(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, map[string]string{"c.yaml": `
queues:
  - name: orders/eu
    lock-duration: 30s
    default-message-time-to-live: P14D
    auto-delete-on-idle: forever
    max-delivery-count: 3
    enable-partitioning: true
    status: senddisabled
    policies: [{name: app, key: k, rights: Send}]
  - name: plain
`}, nil, "--config=$DIR/c.yaml")
	if len(c.Queues) != 2 || c.Queues[0].Name != "orders/eu" || c.Queues[1].Name != "plain" {
		t.Fatalf("queues: got %+v", c.Queues)
	}
	got, want := core.DefaultSettings(core.Queue), core.DefaultSettings(core.Queue)
	want.LockDuration, want.DefaultMessageTimeToLive, want.AutoDeleteOnIdle = 30*time.Second, 14*24*time.Hour, core.Forever
	want.MaxDeliveryCount, want.EnablePartitioning, want.Status = 3, true, core.StatusSendDisabled
	want.AuthorizationRules = []core.AccessRule{{Name: "app", PrimaryKey: "k", Rights: core.Send}}
	c.Declared()[0].Apply(&got)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("orders/eu:\n got %+v\nwant %+v", got, want)
	}
	got = core.DefaultSettings(core.Queue)
	c.Queues[1].Apply(&got)
	if !reflect.DeepEqual(got, core.DefaultSettings(core.Queue)) {
		t.Errorf("plain: got %+v", got)
	}
}

func TestEverySettingHasItsCounterpart(t *testing.T) {
	t.Parallel()
	target := reflect.TypeFor[core.Settings]()
	for f := range reflect.TypeFor[config.EntitySettings]().Fields() {
		if counterpart, ok := target.FieldByName(f.Name); !ok || counterpart.Type != f.Type.Elem() {
			t.Errorf("%s: core.Settings has no such field of type %v", f.Name, f.Type.Elem())
		}
	}
}

const emulatorSample = "\xef\xbb\xbf" + `{
  // comments and trailing commas are what .NET allows
  "UserConfig": {
    "Namespaces": [
      {
        "Name": "emulated",
        "Queues": [
          {
            "Name": "queue.1",
            "Properties": {
              "DeadLetteringOnMessageExpiration": false,
              "DefaultMessageTimeToLive": "PT1H",
              "DuplicateDetectionHistoryTimeWindow": "PT20S",
              "ForwardDeadLetteredMessagesTo": "",
              "ForwardTo": "",
              "LockDuration": "PT1M",
              "MaxDeliveryCount": 3,
              "RequiresDuplicateDetection": true,
              "RequiresSession": false, /* not this one */
              "MaxDeliveryKount": 3,
            }
          },
          { "name": "session-queue", "Properties": { "RequiresSession": true } },
          { "Name": "bare" },
        ],
        "Topics": [
          {
            "Name": "topic.1",
            "Properties": { "DefaultMessageTimeToLive": "PT2H", "RequiresDuplicateDetection": true },
            "Subscriptions": [
              {
                "Name": "sub.1",
                "Properties": { "LockDuration": "PT30S", "MaxDeliveryCount": 3, "ForwardTo": "", "RequiresSession": false, "Colour": "red" },
                "Rules": [
                  {
                    "Name": "all-fields",
                    "Properties": {
                      "FilterType": "Correlation",
                      "CorrelationFilter": {
                        "ContentType": "application/text", "CorrelationId": "id1", "Label": "subject1", "MessageId": "msgid1",
                        "ReplyTo": "someQueue", "ReplyToSessionId": "sessionId", "SessionId": "session1", "To": "xyz",
                        "Properties": { "prop1": "value1", "n": 3, "x": 2.5, "yes": true }
                      }
                    }
                  },
                  { "Name": "expression", "Properties": { "FilterType": "Sql", "SqlFilter": { "SqlExpression": "a = 'b'" }, "Action": { "SqlExpression": "SET c = 'd'" } } }
                ]
              },
              { "Name": "sub.2" }
            ]
          }
        ],
      },
      { "Name": "second" }
    ],
    "Logging": { "Type": "File" }
  }
}`

func TestTheEmulatorsFileIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, map[string]string{"Config.json": emulatorSample}, nil, "--emulator-config=$DIR/Config.json")
	if c.Namespace != "emulated" {
		t.Errorf("namespace: got %q", c.Namespace)
	}
	if len(c.Queues) != 3 || c.Queues[0].Name != "queue.1" || c.Queues[1].Name != "session-queue" || c.Queues[2].Name != "bare" {
		t.Fatalf("queues: got %+v", c.Queues)
	}
	got, want := core.DefaultSettings(core.Queue), core.DefaultSettings(core.Queue)
	want.DefaultMessageTimeToLive, want.DuplicateDetectionHistoryTimeWindow = time.Hour, 20*time.Second
	want.MaxDeliveryCount, want.RequiresDuplicateDetection = 3, true
	c.Queues[0].Apply(&got)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("queue.1:\n got %+v\nwant %+v", got, want)
	}
	if s := c.Queues[1].RequiresSession; s == nil || !*s {
		t.Errorf("session-queue: got %+v", c.Queues[1])
	}
	if len(c.Topics) != 1 || c.Topics[0].Name != "topic.1" || len(c.Topics[0].Subscriptions) != 2 || c.Topics[0].Subscriptions[1].Name != "sub.2" {
		t.Fatalf("topics: got %+v", c.Topics)
	}
	got, want = core.DefaultSettings(core.Topic), core.DefaultSettings(core.Topic)
	want.DefaultMessageTimeToLive, want.RequiresDuplicateDetection, want.DuplicateDetectionHistoryTimeWindow = 2*time.Hour, true, 20*time.Second // the emulator's default
	c.Topics[0].Apply(&got)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("topic.1:\n got %+v\nwant %+v", got, want)
	}
	if rules := c.Topics[0].Subscriptions[1].Rules; rules != nil {
		t.Errorf("sub.2 has the rules %v, and would not get everything", rules)
	}
	sub := c.Topics[0].Subscriptions[0]
	got, want = core.DefaultSettings(core.Subscription), core.DefaultSettings(core.Subscription)
	want.LockDuration, want.MaxDeliveryCount, want.DefaultMessageTimeToLive = 30*time.Second, 3, time.Hour // the last is the emulator's default
	sub.Apply(&got)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("sub.1:\n got %+v\nwant %+v", got, want)
	}
	wantRules := []core.Rule{
		{Name: "all-fields", Filter: core.Filter{Kind: core.CorrelationFilter, Correlation: &core.Correlation{
			ContentType: new("application/text"), CorrelationID: new("id1"), Label: new("subject1"), MessageID: new("msgid1"),
			ReplyTo: new("someQueue"), ReplyToSessionID: new("sessionId"), SessionID: new("session1"), To: new("xyz"),
			Properties: mustProperties(t, core.Property{Key: "n", Value: int32(3)}, core.Property{Key: "prop1", Value: "value1"},
				core.Property{Key: "x", Value: 2.5}, core.Property{Key: "yes", Value: true}),
		}}},
		{Name: "expression", Filter: core.Filter{SQL: "a = 'b'"}, Action: "SET c = 'd'"},
	}
	if got := rulesOf(t, sub); !reflect.DeepEqual(got, wantRules) {
		t.Errorf("rules of sub.1:\n got %+v\nwant %+v", got, wantRules)
	}
	for i, part := range []string{"MaxDeliveryKount", "Colour", "second"} {
		if i >= len(c.Skipped) || !strings.Contains(c.Skipped[i], part) {
			t.Errorf("skipped: got %q, want %q among them in order", c.Skipped, part)
		}
	}
	if got := c.Assumption(); !strings.Contains(got, "omits 13 settings, which have the emulator's defaults: MaxDeliveryCount 3") {
		t.Errorf("assumed: got %q", got)
	}
	if len(c.Skipped) != 3 {
		t.Errorf("skipped: got %d lines, want one for each thing: %q", len(c.Skipped), c.Skipped)
	}
}

func mustProperties(t *testing.T, pairs ...core.Property) core.Properties {
	t.Helper()
	p, err := core.NewProperties(pairs...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func rulesOf(t *testing.T, s config.Subscription) (all []core.Rule) {
	t.Helper()
	for _, r := range s.Rules {
		rule, err := r.Rule()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rule)
	}
	return all
}

func TestDeclaredTopicsBecomeSettingsAndRules(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, map[string]string{"c.yaml": `
topics:
  - name: events
    default-message-time-to-live: P1D
    policies: [{name: app, key: k, rights: Send}]
    subscriptions:
      - name: plain
      - name: eu
        requires-session: true
        status: receivedisabled
        dead-lettering-on-filter-evaluation-exceptions: false
        rules:
          - name: everything
          - name: large
            sql: amount > @limit
            parameters: {"@limit": 100, far: 5000000000}
            action: SET size = @s
            action-parameters: {"@s": big}
          - name: parcels
            correlation:
              label: parcel
              to: ""
              properties: {express: true, weight: 1.5}
`}, nil, "--config=$DIR/c.yaml")
	if len(c.Topics) != 1 || len(c.Topics[0].Subscriptions) != 2 || len(c.Topics[0].Subscriptions[0].Rules) != 0 {
		t.Fatalf("topics: got %+v", c.Topics)
	}
	got, want := core.DefaultSettings(core.Topic), core.DefaultSettings(core.Topic)
	want.DefaultMessageTimeToLive = 24 * time.Hour
	want.AuthorizationRules = []core.AccessRule{{Name: "app", PrimaryKey: "k", Rights: core.Send}}
	if c.Declared()[0].Apply(&got); !reflect.DeepEqual(got, want) {
		t.Errorf("events:\n got %+v\nwant %+v", got, want)
	}
	eu := c.Topics[0].Subscriptions[1]
	got, want = core.DefaultSettings(core.Subscription), core.DefaultSettings(core.Subscription)
	want.RequiresSession, want.Status, want.DeadLetteringOnFilterEvaluationExceptions = true, core.StatusReceiveDisabled, false
	if eu.Apply(&got); !reflect.DeepEqual(got, want) {
		t.Errorf("eu:\n got %+v\nwant %+v", got, want)
	}
	wantRules := []core.Rule{
		{Name: "everything", Filter: core.Filter{Kind: core.TrueFilter}},
		{
			Name: "large", Action: "SET size = @s", ActionParameters: mustProperties(t, core.Property{Key: "@s", Value: "big"}),
			Filter: core.Filter{SQL: "amount > @limit", Parameters: mustProperties(t, core.Property{Key: "@limit", Value: int32(100)}, core.Property{Key: "far", Value: int64(5e9)})},
		},
		{Name: "parcels", Filter: core.Filter{Kind: core.CorrelationFilter, Correlation: &core.Correlation{
			Label: new("parcel"), To: new(""), Properties: mustProperties(t, core.Property{Key: "express", Value: true}, core.Property{Key: "weight", Value: 1.5}),
		}}},
	}
	if got := rulesOf(t, eu); !reflect.DeepEqual(got, wantRules) {
		t.Errorf("rules of eu:\n got %+v\nwant %+v", got, wantRules)
	}
}

func TestWhatIsWrongWithTopicsIsReportedAtItsPlace(t *testing.T) {
	t.Parallel()
	_, err := load(t, map[string]string{"c.yaml": `queues:
  - name: a
    forward-to: A
    requires-session: true
topics:
  - name: A
    lock-duration: 1m
    subscriptions:
      - name: s/1
      - name: ok
        forward-to: sb://host/x
        forward-dead-lettered-messages-to: A/Subscriptions/ok
        lock-duration: 500ms
        rules:
          - name: r
            sql: a = = b
          - name: R
            sql: a = 1
            correlation: {label: x}
          - name: q/
          - name: empty
            correlation: {}
          - name: nested
            correlation: {properties: {a: [1]}, colour: red}
          - name: unused
            parameters: {a: 1}
          - name: action
            action: DROP x
      - name: OK
  - name: x
    subscriptions: {name: y}
`}, nil, "--config=$DIR/c.yaml")
	if err == nil {
		t.Fatal("loaded")
	}
	want := []string{
		`c.yaml:3: queues[0].forward-to: "A" is the entity itself: name another queue or topic`,
		`c.yaml:6: topics[0].name: "A" is listed twice (queues and topics share one set of names`,
		`c.yaml:7: topics[0].lock-duration: the setting does not exist: `,
		`c.yaml:9: topics[0].subscriptions[0].name: The subscription name 's/1' is not allowed because of '/'`,
		`c.yaml:12: topics[0].subscriptions[1].forward-dead-lettered-messages-to: "A/Subscriptions/ok" is the entity itself`,
		`c.yaml:13: topics[0].subscriptions[1].lock-duration: LockDuration is 500ms: it must be at least 1s.`,
		`c.yaml:15: topics[0].subscriptions[1].rules[0]: Rule 'r': SQL filter, position 5: `,
		`c.yaml:17: topics[0].subscriptions[1].rules[1].name: rule "R" is listed twice`,
		`c.yaml:17: topics[0].subscriptions[1].rules[1]: the rule has both sql and correlation: keep one`,
		`c.yaml:20: topics[0].subscriptions[1].rules[2].name: The rule name 'q/' contains '/'`,
		`c.yaml:21: topics[0].subscriptions[1].rules[3]: Rule 'empty': the correlation filter has no condition`,
		`c.yaml:23: topics[0].subscriptions[1].rules[4]: correlation.properties.a is [1]: write a string, a number, true, false, or a typed value such as {$long: 5}`,
		`c.yaml:24: topics[0].subscriptions[1].rules[4].correlation.colour: the setting does not exist: `,
		`c.yaml:25: topics[0].subscriptions[1].rules[5]: the rule has parameters, but no sql or plugin that uses them`,
		`c.yaml:27: topics[0].subscriptions[1].rules[6]: Rule 'action': SQL action, position 1: `,
		`c.yaml:29: topics[0].subscriptions[2].name: subscription "OK" is listed twice`,
		`c.yaml:31: topics[1].subscriptions: map[name:y] is not a list`,
	}
	got := strings.Split(err.Error(), "\n")
	for i := range max(len(got), len(want)) {
		g, w := "(nothing)", "(nothing)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if !strings.HasPrefix(g, w) {
			t.Errorf("line %d:\n got %s\nwant %s", i, g, w)
		}
	}
}

func TestABadValueInTheEmulatorsFileIsReportedAtItsPath(t *testing.T) {
	t.Parallel()
	bad := strings.NewReplacer(`"PT1M"`, `"PT25H"`, `"PT1H"`, `"soon"`, `"PT30S"`, `"PT25H"`, `"a = 'b'"`, `"a ="`, `"prop1"`, `"p": {}, "prop1"`,
		`"CorrelationId": "id1"`, `"Size": 5`, `{ "Name": "sub.2" }`, `{ "Name": "sub.2", "Rules": [ { "Name": "x", "Properties": { "FilterType": "Date" } } ] }`).Replace(emulatorSample)
	_, err := load(t, map[string]string{"c.json": bad}, nil, "--emulator-config=$DIR/c.json", "--namespace=mine")
	const at = "c.json: UserConfig.Namespaces[0].Queues[0].Properties."
	want := at + `DefaultMessageTimeToLive: "soon": the value is not a duration: write it like 90s, 5m, 1h30m, 14d, PT5M, P14D or forever` + "\n" +
		at + `LockDuration: LockDuration is 25h0m0s: the supplied time exceeds the allowed maximum of 24h0m0s.`
	if err == nil {
		t.Fatal("loaded")
	}
	const sub = "c.json: UserConfig.Namespaces[0].Topics[0].Subscriptions"
	for _, want := range append(strings.Split(want, "\n"),
		sub+`[0].Properties.LockDuration: LockDuration is 25h0m0s`,
		sub+`[0].Rules[0]: correlation.properties.p: {} is not a valid value: the value has no type: write a string, a number`,
		sub+`[0].Rules[0].Properties.CorrelationFilter.Size: a correlation filter has no such condition: remove it`,
		sub+`[0].Rules[1]: Rule 'expression': SQL filter, position `,
		sub+`[1].Rules[0].Properties.FilterType: Date is not a type of filter: write Sql or Correlation`,
	) {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got\n%v\nlacks\n%s", err, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "PT1M30S": 90 * time.Second, "P14D": 14 * 24 * time.Hour, "P1DT2H": 26 * time.Hour,
		"PT0.5S": time.Second / 2, "forever": core.Forever, "14d": 14 * 24 * time.Hour, "99999999999999d": core.Forever, "P10675199DT2H48M5.4775807S": core.Forever, "0s": 0,
		"14.00:00:00": 14 * 24 * time.Hour, "00:01:30.5": 90*time.Second + time.Second/2, "10675199.02:48:05.4775807": core.Forever,
	} {
		if got, err := config.ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "P", "PT", "P1DT", "5", "soon", "PT5", "P1H", "-PT1S", "T5S", "d", "1.5d", "-1d", "1d2h", "00:30", "-00:00:30"} {
		if got, err := config.ParseDuration(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"90s", "P14DT1H", "PT0.5S", "P99999999999999999999D", "PT"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := config.ParseDuration(s); err == nil && strings.HasPrefix(s, "P") && d < 0 {
			t.Errorf("%q: got %v", s, d)
		}
	})
}

func FuzzEmulatorConfig(f *testing.F) {
	f.Add(emulatorSample)
	f.Add(`{"UserConfig":{"Namespaces":5}}`)
	f.Add(`{"UserConfig":{"Namespaces":[{"Queues":[7,{"Name":5,"Properties":[]}]}]}} // "`)
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = load(t, map[string]string{"c.json": text}, nil, "--emulator-config=$DIR/c.json")
	})
}
