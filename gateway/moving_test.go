package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// everySetting is a configuration with every setting of entities, rules of every kind and values of
// every type that the management API knows.
const everySetting = `
queues:
  - name: dead
  - name: orders/express
    lock-duration: 45s
    max-size-in-megabytes: 2048
    max-message-size-in-kilobytes: 2048
    requires-duplicate-detection: true
    duplicate-detection-history-time-window: 20m
    requires-session: true
    default-message-time-to-live: P14D
    dead-lettering-on-message-expiration: true
    max-delivery-count: 3
    enable-batched-operations: false
    status: SendDisabled
    forward-dead-lettered-messages-to: dead
    user-metadata: "<a> & \"b\""
    auto-delete-on-idle: P30D
    enable-partitioning: true
    support-ordering: false
    policies:
      - {name: till, key: a-key, secondary-key: another, rights: "Send,Listen"}
  - name: passing
    forward-to: later
  - name: later
    enable-express: true
topics:
  - name: events
    max-size-in-megabytes: 100
    enable-partitioning: true
    requires-duplicate-detection: true
    filtering-messages-before-publishing: true
    policies:
      - {name: feed, key: key-of-the-feed, rights: Manage}
    subscriptions:
      - name: all
      - name: nothing
        rules: []
      - name: eu
        requires-session: true
        dead-lettering-on-filter-evaluation-exceptions: false
        forward-dead-lettered-messages-to: dead
        rules:
          - {name: "never", match-none: true}
          - name: large & small
            sql: "region = 'eu'  AND amount > @limit"
            parameters: {"@limit": 100, "@big": 5000000000, "@long": {$long: 5}, "@half": 0.5, "@whole": {$double: 2}, "@text": "5", "@yes": true}
            action: SET priority = @p
            action-parameters: {"@p": high}
          - name: parcels
            correlation:
              label: parcel
              to: ""
              properties: {when: {$timestamp: "2026-01-31T12:00:00.000Z"}, id: {$uuid: 00112233-4455-6677-8899-aabbccddeeff}, none: {$null: true}}
`

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheImportOfAnExportIsTheNamespaceItself(t *testing.T) {
	t.Parallel()
	here := startGateway(t, "--store=memory", "--config", write(t, "c.yaml", everySetting))
	there := startGateway(t, "--store=memory")
	exported := here.command(t, "", "export")
	for _, want := range []string{"max-size-in-megabytes: 2048", "default-message-time-to-live: 336h", "forward-to: later", "rules: []", "match-none: true", "a-key"} {
		if !strings.Contains(exported, want) {
			t.Errorf("the export lacks %q:\n%s", want, exported)
		}
	}
	file := write(t, "exported.yaml", exported)
	if code, out, _ := there.try(t, there.connection, "", "diff", file); code != exitDifferent || !strings.Contains(out, "orders/express") {
		t.Errorf("diff before the import: got %d\n%s", code, out)
	}
	if got := there.command(t, "", "import", file); strings.Count(got, "created ") != 8 {
		t.Errorf("import: got\n%s", got)
	}
	if again := there.command(t, "", "export"); headless(again) != headless(exported) {
		t.Errorf("got\n%s\nwant\n%s", again, exported)
	}
	for _, source := range [][]string{{file}, {"--from", here.connection}} {
		if code, out, stderr := there.try(t, there.connection, "", append([]string{"diff"}, source...)...); code != exitOK || out != "" {
			t.Errorf("diff %v: got %d\n%s%s", source[0], code, out, stderr)
		}
	}
	short := filepath.Join(t.TempDir(), "short.yaml")
	here.command(t, "", "export", "--short", "--output", short)
	third := startGateway(t, "--store=memory", "--config", short)
	if got := third.command(t, "", "export"); headless(got) != headless(exported) {
		t.Errorf("a gateway with the short export: got\n%s\nwant\n%s", got, exported)
	}
	if text, err := os.ReadFile(short); err != nil || strings.Contains(string(text), "lock-duration: 1m\n") {
		t.Errorf("the short export has defaults: %s, %v", text, err)
	}
}

// headless is an export without the line that names its host.
func headless(text string) string {
	_, rest, _ := strings.Cut(text, "\n")
	return rest
}

func TestAnExportIsSecretAndWhole(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--config", write(t, "c.yaml", everySetting))
	file := write(t, "out.yaml", "old\n")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := g.try(t, g.connection, "", "export", "--output", file); code != exitUsage || !strings.Contains(stderr, "replace it with --force") {
		t.Errorf("export over a file: got %d %s", code, stderr)
	}
	g.command(t, "", "export", "--force", "--output", file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a file with keys has the mode %v, %v", info.Mode(), err)
	}
	dir := t.TempDir()
	if code, _, stderr := g.try(t, g.connection, "", "export", "--output", filepath.Join(dir, "none", "out.yaml")); code != exitFailure || strings.Contains(stderr, "queues") {
		t.Errorf("a directory that is not there: got %d\n%s", code, stderr)
	}
	if code, _, stderr := g.try(t, g.connection, "", "export", "--output", dir); code != exitFailure {
		t.Errorf("a directory: got %d\n%s", code, stderr)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
	g.command(t, "", "export", "--output", os.DevNull)
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("%s is %v, %v", os.DevNull, info.Mode(), err)
	}
}

// A queue whose destination comes later is made without it first, with its policies all the same.
func TestEntitiesThatForwardToEachOtherKeepTheirKeys(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	arm := write(t, "bus.json", `{"resources": [
		{"type": "Microsoft.ServiceBus/namespaces/queues", "name": "ns/a", "properties": {"forwardTo": "b"}}, {"type": "Microsoft.ServiceBus/namespaces/queues/authorizationRules", "name": "ns/a/till", "properties": {"rights": ["Send"]}},
		{"type": "Microsoft.ServiceBus/namespaces/queues", "name": "ns/b", "properties": {"forwardDeadLetteredMessagesTo": "a"}}]}`)
	code, out, stderr := g.try(t, g.connection, "", "import", arm)
	if code != exitOK || !strings.Contains(out, "generated new keys for policy till of a") {
		t.Errorf("got %d\n%s%s", code, out, stderr)
	}
	policyKey(t, g)
	if got := g.command(t, "", "export"); !strings.Contains(got, "forward-to: b") || !strings.Contains(got, "forward-dead-lettered-messages-to: a") {
		t.Errorf("got\n%s", got)
	}
	if code, out, _ := g.try(t, g.connection, "", "diff", arm); code != exitOK {
		t.Errorf("diff: got\n%s", out)
	}
}

func TestAnImportReadsAllPages(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 250 {
		fmt.Fprintf(&many, "%s- name: q-%d\n", map[bool]string{true: "queues:\n"}[i == 0], i)
	}
	many.WriteString("topics:\n- name: t\n  subscriptions:\n")
	for i := range 101 {
		fmt.Fprintf(&many, "  - name: s-%d\n", i)
	}
	azure := startGateway(t, "--store=memory", "--config", write(t, "many.yaml", many.String()))
	g := startGateway(t, "--store=memory")
	if got := g.command(t, "", "import", "--from", azure.connection); strings.Count(got, "created queue") != 250 || strings.Count(got, "created subscription") != 101 {
		t.Errorf("got %d lines", strings.Count(got, "\n"))
	}
	if code, out, _ := g.try(t, g.connection, "", "diff", "--from", azure.connection); code != exitOK {
		t.Errorf("got\n%s", out)
	}
}

func TestWhatExistsIsReportedAndChangedOnRequest(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	g.command(t, "", "queue", "create", "orders", "--max-delivery-count", "3", "--user-metadata", "mine")
	g.command(t, "", "topic", "create", "events")
	g.command(t, "", "subscription", "create", "events", "eu")
	file := write(t, "c.yaml", `
queues:
  - {name: orders, max-delivery-count: 5, policies: [{name: p, key: k, rights: Send}]}
  - name: new
topics:
  - name: events
    subscriptions:
      - {name: eu, rules: [{name: one, sql: "a = 1"}]}
`)
	state := g.command(t, "", "export")
	if got, want := g.command(t, "", "import", file, "--dry-run"), "differs queue orders: max-delivery-count: 5 in the source, 3 in the gateway\n"; !strings.Contains(got, want) || !strings.Contains(got, "would be created queue new") {
		t.Errorf("dry run: got\n%s", got)
	}
	if got := g.command(t, "", "export"); got != state {
		t.Errorf("a dry run has changed the gateway:\n%s", got)
	}
	want := `differs queue orders: max-delivery-count: 5 in the source, 3 in the gateway
differs queue orders: policy p: Send in the source, none in the gateway
created queue new
differs subscription events/Subscriptions/eu: rule one: {sql: a = 1} in the source, none in the gateway
differs subscription events/Subscriptions/eu: rule $Default: none in the source, every message in the gateway
`
	if got := g.command(t, "", "import", file); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	g.command(t, "", "import", file, "--update")
	if code, out, _ := g.try(t, g.connection, "", "diff", file); code != exitOK {
		t.Errorf("after --update: got %d\n%s", code, out)
	}
	var shown string
	if shown = g.command(t, "", "queue", "show", "orders"); !strings.Contains(shown, "mine") {
		t.Errorf("--update has changed what the source does not name:\n%s", shown)
	}
	fixed := write(t, "fixed.yaml", "queues: [{name: orders, requires-session: true}]")
	code, _, stderr := g.try(t, g.connection, "", "import", fixed, "--update")
	if code != exitFailure || !strings.Contains(stderr, "orders: requires-session is false, but configured as true") || !strings.Contains(stderr, "delete the queue") {
		t.Errorf("a fixed setting: got %d\n%s", code, stderr)
	}
}

func TestAStartTellsHowTheStoreDiffersAndChangesItOnRequest(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=file", "--config", write(t, "c.yaml", "queues: [{name: orders, max-delivery-count: 3}, {name: same}]"))
	if strings.Contains(g.stderr.String(), "differs") {
		t.Errorf("a first start: %s", g.stderr)
	}
	g.halt(t)
	changed := write(t, "c.yaml", "queues: [{name: orders, max-delivery-count: 5, lock-duration: 30s}, {name: same}]")
	g.start(t, "--store=file", "--config", changed)
	if got := strings.Count(g.stderr.String(), "differs from the configuration"); got != 2 || !strings.Contains(g.stderr.String(), "entity=orders setting=max-delivery-count configured=5 stored=3") || !strings.Contains(g.stderr.String(), "--update-entities") {
		t.Errorf("got %d warnings:\n%s", got, g.stderr)
	}
	g.halt(t)
	g.start(t, "--store=file", "--config", changed, "--update-entities")
	if code, out, _ := g.try(t, g.connection, "", "diff", changed); code != exitOK {
		t.Errorf("with --update-entities: got\n%s", out)
	}
	g.halt(t)
	code, _, stderr := invoke(t, nil, "--listen=127.0.0.1:0", "--data", g.data, "--store=file", "--update-entities", "--config", write(t, "c.yaml", "queues: [{name: orders, requires-session: true}]"))
	if code != exitFailure || !strings.Contains(stderr, "orders") || !strings.Contains(stderr, "requires-session") || !strings.Contains(stderr, "delete the queue") {
		t.Errorf("a fixed setting: got %d\n%s", code, stderr)
	}
}

func TestEmulatorsFileIsImported(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	g.command(t, "", "import", "../configs/emulator-config.json")
	code, out, stderr := g.try(t, g.connection, "", "diff", "../configs/emulator-config.json")
	if code != exitOK {
		t.Errorf("got %d\n%s%s", code, out, stderr)
	}
	yaml := filepath.Join(t.TempDir(), "c.yaml")
	g.command(t, "", "import", "../configs/emulator-config.json", "--output", yaml)
	if _, err := config.Load(nil, []string{"CROSSTOWN_CONFIG=" + yaml, "HOME=/"}); err != nil {
		t.Error(err)
	}
	if code, out, _ := g.try(t, g.connection, "", "diff", yaml); code != exitOK {
		t.Errorf("the written file: got\n%s", out)
	}
	for _, more := range [][]string{{"--namespace", "n"}, {"--parameter", "a=b"}} {
		if code, _, stderr := g.try(t, g.connection, "", append([]string{"diff", "--from", g.connection}, more...)...); code != exitUsage || !strings.Contains(stderr, "apply only to a FILE") {
			t.Errorf("--from with %s: got %d\n%s", more[0], code, stderr)
		}
	}
	odd := write(t, "Config.json", `{"UserConfig": {"Namespaces": [{"Name": "n", "Queues": [{"Name": "q", "Properties": {"Colour": "red"}}]}]}}`)
	if _, _, stderr := g.try(t, g.connection, "", "import", odd); !strings.Contains(stderr, "not taken over: ") || !strings.Contains(stderr, "property Colour of queue q") {
		t.Errorf("an unknown property: got %s", stderr)
	}
}

func TestATemplateIsImported(t *testing.T) {
	t.Parallel()
	const bus = "testdata/arm/bus.json"
	g := startGateway(t, "--store=memory")
	code, out, stderr := g.try(t, g.connection, "", "import", bus)
	for _, want := range []string{
		"created queue orders-test\n", "created subscription events-test/Subscriptions/shard-02\n", "generated new keys for policy till of orders-test: crosstown export shows them",
		"not taken over: policy app (Send,Listen) of the namespace: give it to the gateway", "not taken over: " + bus + ": skipped property unheardOf of queue orders-test",
		"of " + bus + ": 7 created, 0 changed; 0 the same, 0 different, 7 not taken over\n",
	} {
		if !strings.Contains(out+stderr, want) {
			t.Errorf("lacks %q: got %d\n%s%s", want, code, out, stderr)
		}
	}
	key := policyKey(t, g)
	if code, out, stderr := g.try(t, g.connection, "", "diff", bus); code != exitOK {
		t.Errorf("diff: got\n%s%s", out, stderr)
	}
	g.command(t, "", "import", bus, "--parameter", "retries=9", "--update")
	if got := policyKey(t, g); got != key {
		t.Errorf("an update without keys has changed the key %s to %s", key, got)
	}
	if code, out, _ := g.try(t, g.connection, "", "diff", bus); code != exitDifferent || !strings.Contains(out, "max-delivery-count  4") {
		t.Errorf("diff: got %d\n%s", code, out)
	}
	yaml := filepath.Join(t.TempDir(), "c.yaml")
	g.command(t, "", "import", bus, "--output", yaml)
	if code, out, stderr := g.try(t, g.connection, "", "diff", yaml, "--namespace", "sbemulatorns"); code != exitDifferent || strings.Contains(out, "till") {
		t.Errorf("a policy without a key: got\n%s%s", out, stderr)
	}
	if _, err := config.Load(nil, []string{"CROSSTOWN_CONFIG=" + yaml, "HOME=" + t.TempDir()}); err != nil {
		t.Error(err)
	}
	if code, _, stderr := g.try(t, g.connection, "", "import", bus, "--parameter", "retries=many"); code != exitUsage || !strings.Contains(stderr, `"many" is not a value of the type int`) {
		t.Errorf("got %d\n%s", code, stderr)
	}
}

// policyKey is the key of the policy till.
func policyKey(t *testing.T, g *gateway) string {
	t.Helper()
	_, text, _ := strings.Cut(g.command(t, "", "export"), "name: till")
	_, text, _ = strings.Cut(text, "key: ")
	key, _, _ := strings.Cut(text, "\n")
	if len(key) < 40 {
		t.Errorf("the key is %q", key)
	}
	return key
}

func TestAConfigurationIsCheckedAndPrinted(t *testing.T) {
	t.Parallel()
	file := write(t, "c.yaml", "store: disk\nqueues:\n  - {name: a b}\n  - {name: q, lock-duration: 25h, colour: red}\n")
	home := []string{"HOME=" + t.TempDir()}
	code, stdout, stderr := invoke(t, home, "config", "check", file)
	for _, want := range []string{file + ":1: store: ", file + ":3: queues[0].name: ", file + ":4: queues[1].lock-duration: ", file + ":4: queues[1].colour: the setting does not exist"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("lacks %q:\n%s", want, stderr)
		}
	}
	if code != exitUsage || stdout != "" {
		t.Errorf("got %d\n%s", code, stdout)
	}
	if code, stdout, stderr := invoke(t, home, "config", "check", "../configs/crosstown.yaml"); code != exitOK || !strings.Contains(stdout, "is valid") {
		t.Errorf("the sample: got %d\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr := invoke(t, home, "config", "check", write(t, "c.yaml", "store: disk\ntls: {cert: /none, key: /none}")); code != exitUsage || !strings.Contains(stderr, "disk") || !strings.Contains(stderr, "PEM") {
		t.Errorf("a certificate that is not there: got %d\n%s", code, stderr)
	}
	if code, _, stderr := invoke(t, home, "config", "check", write(t, "forward.yaml", "queues: [{name: a, forward-to: b}, {name: b}, {name: c, forward-to: missing}]")); code != exitUsage || !strings.Contains(stderr, "queue c: ForwardTo is 'missing'") {
		t.Errorf("a destination that is missing: got %d\n%s", code, stderr)
	}
	if code, stdout, stderr := invoke(t, home, "config", "check", "../configs/emulator-config.json"); code != exitOK {
		t.Errorf("the emulator's file: got %d\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr := invoke(t, home, "config", "check", "testdata/arm/bus.json"); code != exitUsage || !strings.Contains(stderr, "--dry-run") {
		t.Errorf("a template: got %d\n%s", code, stderr)
	}
	if code, _, stderr := invoke(t, home, "config", "check", "none.yaml"); code != exitUsage || !strings.Contains(stderr, "none.yaml") {
		t.Errorf("no file: got %d\n%s", code, stderr)
	}
	printed := filepath.Join(t.TempDir(), "printed.yaml")
	code, stdout, stderr = invoke(t, home, "config", "print", "--config", "../configs/crosstown.yaml", "--log-level", "warn")
	if code != exitOK || !strings.Contains(stdout, "level: warn # --log-level") {
		t.Fatalf("got %d\n%s%s", code, stdout, stderr)
	}
	if err := os.WriteFile(printed, []byte(stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := invoke(t, home, "config", "check", printed); code != exitOK {
		t.Errorf("what was printed is not a configuration: got %d\n%s", code, stderr)
	}
	if code, stdout, _ := invoke(t, home, "config"); code != exitOK || !strings.Contains(stdout, "check") {
		t.Errorf("crosstown config: got %d\n%s", code, stdout)
	}
}

// TestThePageAboutMovingWorks runs the commands of docs/moving.md, one after the other.
func TestThePageAboutMovingWorks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/moving.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	azure := startGateway(t, "--store=memory", "--config", write(t, "azure.yaml", everySetting))
	azure.command(t, "a\nb\n", "send", "later")
	g := startGateway(t, "--store=memory")
	named := strings.NewReplacer("Config.json", "../configs/emulator-config.json", "crosstown.yaml", filepath.Join(dir, "crosstown.yaml"), "bus.json", "testdata/arm/bus.json", "test.parameters.json", "testdata/arm/test.parameters.json")
	ran := 0
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		_ = os.Remove(filepath.Join(dir, "crosstown.yaml")) // each way starts again
		for line := range strings.Lines(block[1]) {
			words := strings.Fields(named.Replace(line))
			if len(words) == 0 || words[0] != "crosstown" {
				continue // of Azure
			}
			ran++
			for i := range words {
				if words[i] == `"$AZURE_CONNECTION_STRING"` {
					words[i] = azure.connection
				}
			}
			into := ""
			if n := len(words); n > 2 && words[n-2] == ">" {
				into, words = words[n-1], words[:n-2]
			}
			if strings.HasPrefix(words[1], "--") { // it serves
				startGateway(t, append([]string{"--store=memory"}, words[1:]...)...).halt(t)
				continue
			}
			code, stdout, stderr := g.try(t, g.connection, "", words[1:]...)
			if code != exitOK {
				t.Errorf("%s: got %d\n%s%s", strings.TrimSpace(line), code, stdout, stderr)
			}
			if into == "" {
				continue
			}
			if err := os.WriteFile(into, []byte(stdout), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if ran < 9 {
		t.Errorf("only %d commands were run", ran)
	}
	if got := bodies(g.command(t, "", "receive", "later", "--count", "2")); got != "a b" {
		t.Errorf("the messages of the namespace: got %q", got)
	}
}
