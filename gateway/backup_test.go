package main

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

func TestBackupAndRestoreSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   string
		code   int
		wanted string
	}{
		{"backup --store file", exitFailure, "which is empty or missing: set --data to the gateway's data directory"},
		{"backup --store spawn", exitUsage, "the gateway cannot start a Redis: run redis-server --dir "},
		{"backup --store memory", exitFailure, "the memory store cannot be backed up"},
		{"restore --store memory " + broken, exitFailure, "the backup is damaged at line 1: "},
		{"restore " + filepath.Join(dir, "none"), exitFailure, "no such file"},
		{"restore", exitFailure, "the backup is empty"},
		{"backup --store nonsense", exitUsage, "nonsense"},
		{"backup a b", exitUsage, "the command line has 2 arguments"},
	} {
		code, _, stderr := invoke(t, nil, append(strings.Fields(c.args), "--data", dir)...)
		if code != c.code || !strings.Contains(stderr, c.wanted) {
			t.Errorf("crosstown %s: got %d %s, want %d and %q", c.args, code, stderr, c.code, c.wanted)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the data directory has %v, %v: nothing was to be made", entries, err)
	}
}

// A backup that cannot be written whole leaves no file, and a restore replaces what was never used.
func TestARestoreReplacesWhatWasNeverUsed(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	g.command(t, "", "queue", "create", "kept", "--max-delivery-count", "4")
	g.command(t, "", "send", "kept", "m", "--count=10")
	g.halt(t)
	file := filepath.Join(t.TempDir(), "all.jsonl")
	if code, _, stderr := invoke(t, nil, "backup", file, "--data", g.data); code != exitOK || !strings.Contains(stderr, "1 entities with 10 messages") {
		t.Fatalf("backup: got %d %s", code, stderr)
	}
	if code, _, _ := invoke(t, nil, "backup", filepath.Join(filepath.Dir(file), "none", "x"), "--data", g.data); code != exitFailure {
		t.Errorf("backup to a directory that is not there: got %d", code)
	}
	if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 1 {
		t.Errorf("beside the backup: got %v, %v", entries, err)
	}
	other := startGateway(t)
	other.command(t, "", "queue", "create", "kept")
	other.halt(t)
	if code, _, stderr := invoke(t, nil, "restore", file, "--data", other.data); code != exitOK || !strings.Contains(stderr, "restored 1 entities with 10 messages") {
		t.Fatalf("restore: got %d %s", code, stderr)
	}
	other.start(t)
	if got := strings.Count(other.command(t, "", "receive", "kept", "--count=0", "--wait=5s"), "\nm\n"); got != 10 {
		t.Errorf("received %d messages, want 10", got)
	}
	if got := other.command(t, "", "queue", "show", "kept", "--json"); !strings.Contains(got, `4`) {
		t.Errorf("settings: %s", got)
	}
}

// What receive --json prints, and what a backup has, can be sent again with the types of its properties.
func TestPrintedMessagesCanBeSentAgain(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	g.command(t, "", "queue", "create", "from")
	g.command(t, "", "queue", "create", "sessions", "--session-aware")
	typed := `{"messageId":"1","sequenceNumber":7,"state":"active","subject":"s","properties":{"int":{"$int":5},"long":5,"when":{"$timestamp":"2026-01-31T12:00:00.123Z"},` +
		`"id":{"$uuid":"00112233-4455-6677-8899-aabbccddeeff"},"raw":{"$binary":"AP8Q"},"whole":{"$double":3},"text":"t"},"body":"AP8=","bodyEncoding":"base64"}`
	g.command(t, typed+"\n\n", "send", "from", "--records")
	first := g.command(t, "", "receive", "from", "--json")
	g.command(t, first, "send", "from", "--records")
	second := g.command(t, "", "peek", "from", "--json")
	for _, wanted := range []string{
		`"int":{"$int":5}`, `"long":5`, `"when":{"$timestamp":"2026-01-31T12:00:00.123Z"}`, `"id":{"$uuid":"00112233-4455-6677-8899-aabbccddeeff"}`,
		`"raw":{"$binary":"AP8Q"}`, `"whole":{"$double":3}`, `"text":"t"`, `"body":"AP8=","bodyEncoding":"base64"`, `"messageId":"1"`, `"subject":"s"`,
	} {
		if !strings.Contains(first, wanted) || !strings.Contains(second, wanted) {
			t.Errorf("%s is missing in\n%sor\n%s", wanted, first, second)
		}
	}
	g.command(t, `{"sequenceNumber":1,"state":"active","sessionId":"a","body":"x"}`+"\n"+`{"sequenceNumber":2,"state":"active","sessionId":"b","body":"y"}`, "send", "sessions", "--records")
	if got := bodies(g.command(t, "", "receive", "sessions", "--session=b")); got != "y" {
		t.Errorf("session b: got %s", got)
	}
	for input, wanted := range map[string]string{
		"hello": "standard input: line 1: the line is not in the format of crosstown record, receive --json",
		`{"state":"active","body":"x","bodyType":"value"}`:                     "standard input: line 1 was not sent: ",
		`{"state":"active","body":"x","properties":{"c":{"$char":"xy"}}}`:      "line 1: properties: ",
		`{"state":"odd","body":"x"}`:                                           `the state "odd" is unknown`,
		`{"state":"active","body":"x"}` + "\n" + `{"state":"active","body":1}`: "line 2",
	} {
		if code, _, stderr := g.try(t, g.connection, input, "send", "from", "--records"); code != exitFailure || !strings.Contains(stderr, wanted) {
			t.Errorf("%s: got %d %s, want %q", input, code, stderr, wanted)
		}
	}
	if code, _, stderr := g.try(t, g.connection, "", "send", "from", "--records", "--ttl=1h"); code != exitUsage || !strings.Contains(stderr, "cannot be combined with --ttl") {
		t.Errorf("--ttl: got %d %s", code, stderr)
	}
	g.halt(t)
	code, backup, stderr := invoke(t, nil, "backup", "--data", g.data)
	if code != exitOK {
		t.Fatal(stderr)
	}
	g.start(t)
	g.command(t, "", "queue", "create", "again")
	if got := g.command(t, backup, "send", "again", "--records"); !strings.Contains(got, "sent ") {
		t.Errorf("sending a backup: %s", got)
	}
}

// damaged is a backup after a change of its lines, with a last line that fits.
func damaged(t *testing.T, backup string, change func(lines []string) []string) string {
	t.Helper()
	lines := strings.SplitAfter(backup, "\n")
	lines = change(slices.Clone(lines[:len(lines)-2])) // without the last line
	text := strings.Join(lines, "")
	end := record.End{Lines: len(lines), Messages: strings.Count(text, `"sequenceNumber"`)}
	end.CRC32C = fmt.Sprintf("%08x", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
	last, err := json.Marshal(record.Line{End: &end})
	if err != nil {
		t.Fatal(err)
	}
	return text + string(last) + "\n"
}

func TestADamagedBackupIsRefusedWithItsLineAndNothingIsRestored(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	g.command(t, "", "queue", "create", "orders")
	g.command(t, "", "topic", "create", "news")
	g.command(t, "", "subscription", "create", "news", "all")
	g.command(t, "", "send", "orders", "m", "--count=3")
	g.command(t, "", "send", "news", "n")
	g.halt(t)
	code, backup, stderr := invoke(t, nil, "backup", "--data", g.data)
	if code != exitOK {
		t.Fatalf("backup: %s", stderr)
	}
	replace := func(old, with string) func([]string) []string {
		return func(lines []string) []string {
			for i := range lines {
				lines[i] = strings.ReplaceAll(lines[i], old, with)
			}
			return lines
		}
	}
	line := func(lines []string, text string) int {
		i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, text) })
		if i < 0 {
			t.Fatalf("the backup has no line with %s:\n%s", text, backup)
		}
		return i
	}
	without := func(text string) func([]string) []string {
		return func(lines []string) []string {
			i := line(lines, text)
			return slices.Delete(lines, i, i+1)
		}
	}
	twice := func(text string) func([]string) []string {
		return func(lines []string) []string {
			i := line(lines, text)
			return slices.Insert(lines, i, lines[i])
		}
	}
	for name, c := range map[string]struct {
		change func([]string) []string
		want   string
	}{
		"a name that is a path":                 {replace(`"Name":"orders"`, `"Name":"../../../etc/x"`), "line 2: The entity name"},
		"a name with a line break":              {replace(`"Name":"orders"`, `"Name":"or\nders"`), "line 2: The entity name"},
		"a name of 5 MB":                        {replace(`"Name":"orders"`, `"Name":"`+strings.Repeat("x", 5<<20)+`"`), "line 2: The entity name 'xxx"},
		"a subscription's name that is a path":  {replace(`/Subscriptions/all"`, `/Subscriptions/.."`), "line 4: The subscription name '..'"},
		"a destination with a line break":       {replace(`"ForwardTo":""`, `"ForwardTo":"a\nb"`), "line 2: "},
		"an id that is none":                    {replace(`"ID":"`, `"ID":"../`), "line 2: "},
		"the line of a queue is missing":        {without(`"Name":"orders"`), `line 4: no line before this one contains the entity "orders"`},
		"the line of a topic is missing":        {without(`"Name":"news"`), `line 3: no line before this one contains the topic "news" of the subscription "all"`},
		"the line of a subscription is missing": {without(`"Name":"news/Subscriptions/all"`), "no line before this one contains the subscription"},
		"the line of a partition is missing":    {without(`"partition":{`), "line 5: no line before this one begins a partition"},
		"an entity is twice":                    {twice(`"Name":"orders"`), `line 3: the backup contains the entity "orders" twice`},
		"a partition is twice":                  {twice(`"partition":{`), "line 6: the backup contains partition 0 of orders twice"},
		"a message is twice":                    {twice(`"sequenceNumber":2,`), "comes after message 2"},
		"a line is cut":                         {replace(`"Name":"news/`, "\n"), "line 4: "},
	} {
		text := damaged(t, backup, c.change)
		file, data := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "data")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := invoke(t, nil, "restore", file, "--data", data)
		if code != exitFailure || !strings.Contains(stderr, "the backup is damaged at ") || !strings.Contains(stderr, c.want) || len(stderr) > 2000 {
			t.Errorf("%s: got %d %.1000s, want %q", name, code, stderr, c.want)
		}
		if _, err := os.Stat(data); err == nil {
			t.Errorf("%s: a store was made", name)
		}
	}
	if code, _, stderr := invoke(t, nil, "restore", "--data", g.data); code != exitFailure || !strings.Contains(stderr, "empty") {
		t.Errorf("restore of nothing: got %d %s", code, stderr)
	}
}
