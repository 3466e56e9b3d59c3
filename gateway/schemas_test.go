package main

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

const orderSchema = `{
  "type": "object",
  "required": ["id"],
  "properties": {
    "id": {"type": "string"},
    "lines": {"type": "array", "items": {"properties": {"sku": {"type": "string", "pattern": "^A-"}}}}
  }
}`

// schemasFile is a configuration whose queue orders has a schema.
func schemasFile(t *testing.T, mismatch string) string {
	t.Helper()
	return writeFile(t, "crosstown.yaml", `
queues: [{name: orders}, {name: before, forward-to: orders}, {name: free}]
schemas:
  - entity: ORDERS
    on-mismatch: `+mismatch+`
    versions: [{file: `+writeFile(t, "order.json", orderSchema)+`}]
`)
}

// wantNotAllowed compares the refusal of a send with its text, which holds no value.
func wantNotAllowed(t *testing.T, err error, text string) {
	t.Helper()
	refused, ok := errors.AsType[*goamqp.Error](err)
	if !ok || refused.Condition != goamqp.ErrCondNotAllowed || !strings.HasPrefix(refused.Description, text) || strings.Contains(refused.Description, "SECRET") {
		t.Errorf("got %v, want amqp:not-allowed: %s", err, text)
	}
}

func order(sku string) *azservicebus.Message {
	return &azservicebus.Message{Body: []byte(`{"id": "1", "lines": [{"sku": "A-1"}, {"sku": "` + sku + `"}]}`), ContentType: new("application/json")}
}

func TestSchemasRefuseThroughTheSDKAndHTTP(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--config", schemasFile(t, "refuse"))
	c := g.sdk(t)
	sender := func(queue string) *azservicebus.Sender {
		s, err := c.NewSender(queue, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := sender("orders")
	const why = "/lines/1/sku: does not match pattern '^A-'."
	wantNotAllowed(t, s.SendMessage(t.Context(), order("SECRET"), nil), "Message 1 of 1: "+why)
	if err := s.SendMessage(t.Context(), order("A-2"), nil); err != nil {
		t.Error(err)
	}
	batch, err := s.NewMessageBatch(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		m := order("A-3")
		if i == 16 {
			m = order("SECRET")
		}
		if err := batch.AddMessage(m, nil); err != nil {
			t.Fatal(err)
		}
	}
	wantNotAllowed(t, s.SendMessageBatch(t.Context(), batch, nil), "Message 17 of 100: "+why)
	_, err = s.ScheduleMessages(t.Context(), []*azservicebus.Message{order("SECRET")}, time.Now().Add(time.Hour), nil)
	if err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("schedule: got %v", err)
	}
	wantNotAllowed(t, s.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("SECRET"), ContentType: new("text/csv")}, nil), "Message 1 of 1: body: the body cannot be decoded.")

	a := &asks{T: t, g: g, policy: config.DevPolicy, key: config.DevKey}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.address+"/orders/messages", strings.NewReader(`{"id": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", auth.SignSAS(req.URL.String(), config.DevPolicy, config.DevKey, time.Now().Add(time.Hour)))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "/id: is number, not string") {
		t.Errorf("HTTP: got %s, %s, %v", resp.Status, text, err)
	}

	// What is forwarded has no sender: it becomes a dead letter, and what is behind it does not wait.
	for _, sku := range []string{"SECRET", "A-4"} {
		if err := sender("before").SendMessage(t.Context(), order(sku), nil); err != nil {
			t.Fatal(err)
		}
	}
	r, err := c.NewReceiverForQueue("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	for got := ""; !strings.Contains(got, "A-4"); {
		ms, err := r.ReceiveMessages(t.Context(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got = string(ms[0].Body); strings.Contains(got, "SECRET") || strings.Contains(got, "A-3") {
			t.Errorf("received %s", got)
		}
	}
	dead, err := c.NewReceiverForQueue("orders", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
	if err != nil {
		t.Fatal(err)
	}
	ms, err := dead.ReceiveMessages(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := ms[0]; *m.DeadLetterReason != "SchemaMismatch" || *m.DeadLetterErrorDescription != strings.TrimSuffix(why, ".") {
		t.Errorf("the dead letter: got %s, %s", *m.DeadLetterReason, *m.DeadLetterErrorDescription)
	}

	for path, want := range map[string]string{
		"/$crosstown/pipelines": `"entity":"orders","stage":"schema","plugin":"schema","judged":107,"mismatched":6,"dropped":0,"deadLettered":1,"rejected":5,`,
		"/$crosstown/metrics":   `crosstown_schema_mismatches_total{namespace="sbemulatorns"} 6`,
	} {
		if _, text := a.do(http.MethodGet, path, ""); !strings.Contains(text, want) {
			t.Errorf("%s: got %s", path, text)
		}
	}
}

func TestAReloadTakesUpSchemas(t *testing.T) {
	t.Parallel()
	file := schemasFile(t, "refuse")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, "--config", file)
	g := &gateway{address: p.address, data: t.TempDir(), connection: "Endpoint=sb://" + p.address + ";SharedAccessKeyName=" + config.DevPolicy + ";SharedAccessKey=" + config.DevKey + ";UseDevelopmentEmulator=true"}
	s, err := g.sdk(t).NewSender("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	send := func() error { return s.SendMessage(t.Context(), order("B-1"), nil) }
	wantNotAllowed(t, send(), "Message 1 of 1: ")
	rewrite(t, file, strings.Replace(string(text), "refuse", "count", 1))
	p.signal(t, syscall.SIGHUP)
	p.until(t, "reloaded")
	if err := send(); err != nil {
		t.Errorf("counted only: got %v", err)
	}
	rewrite(t, file, strings.Replace(string(text), "order.json", "no-order.json", 1))
	p.signal(t, syscall.SIGHUP)
	if line := p.line(t, "the old settings stay in force"); !strings.Contains(line, "schemas[0]") {
		t.Errorf("the log says %s", line)
	}
	if err := send(); err != nil {
		t.Errorf("after a bad reload: got %v", err)
	}
}

func TestSchemaCheckJudgesRecordingsAndEntities(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--config", schemasFile(t, "count"))
	file := writeFile(t, "order.json", orderSchema)
	for _, body := range []string{`{"id": "1"}`, `{"id": 2}`, `SECRET`} {
		g.command(t, body, "send", "free", "--message-id", "m"+body[len(body)-2:len(body)-1])
	}
	recording := writeFile(t, "free.jsonl", g.command(t, "", "record", "free", "--once"))
	for _, args := range [][]string{{recording}, {"--entity", "free"}} {
		code, out, problems := g.try(t, g.connection, "", append([]string{"schema", "check", file}, args...)...)
		if code == exitOK || !strings.Contains(problems, "checked 3 messages: 2 did not match the schema ") || strings.Count(out, "\n") != 3 || !strings.Contains(out, "/id: is number, not string") ||
			!strings.Contains(out, "body: the body cannot be decoded") || strings.Contains(out, "SECRET") {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out, problems)
		}
	}
	if _, out, _ := g.try(t, g.connection, "", "schema", "check", file, recording, "--json"); !strings.Contains(out, `"mismatch":"/id: is number, not string"`) || !strings.Contains(out, `"where":"`+recording+`:2"`) {
		t.Errorf("JSON: got %s", out)
	}
	good := g.command(t, "", "peek", "free", "--count", "1", "--json")
	if _, problems, _ := g.try(t, g.connection, good, "schema", "check", file, "-"); problems != "" {
		t.Errorf("a good one: got %s", problems)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{file}, "specify either recordings, or an entity with --entity"},
		{[]string{file, recording, "--entity", "free"}, "specify either recordings, or an entity with --entity"},
		{[]string{filepath.Join(t.TempDir(), "none.json"), recording}, "no such file"},
		{[]string{file, writeFile(t, "other.jsonl", `{"version": 9}`)}, "other.jsonl: line 1: the line is neither a message nor part of a backup"},
		{[]string{file, writeFile(t, "empty.jsonl", "")}, "the input has no messages"},
		{[]string{file, recording, "--serializers", "avro"}, `--serializers: "avro" is not built in`},
	} {
		if code, _, problems := g.try(t, g.connection, "", append([]string{"schema", "check"}, c.args...)...); code == exitOK || !strings.Contains(problems, c.want) {
			t.Errorf("%v: exit code %d: %s", c.args, code, problems)
		}
	}
}

func TestConfigCheckReportsBadSchemas(t *testing.T) {
	t.Parallel()
	bad := writeFile(t, "bad.json", "{\n  \"pattern\": \"(?=a)\"\n}")
	file := writeFile(t, "crosstown.yaml", `schemas:
  - {entity: "a b", versions: [{file: `+bad+`}]}
  - {entity: orders, on-mismatch: drop}
  - {entity: Orders, versions: [{when: "1=1"}]}
`)
	g := &gateway{data: t.TempDir()}
	code, _, problems := g.try(t, "", "", "config", "check", file)
	for _, want := range []string{
		"schemas[0].entity", bad + ":2: error parsing regexp: invalid or unsupported Perl syntax: `(?=`: write a pattern that RE2 can run",
		"schemas[1].on-mismatch", `"drop" is unknown: use one of refuse, dead-letter, count`, "schemas[1].versions: the schema has no files",
		`"Orders" is listed twice`, "schemas[2].versions[0].file: the file is missing",
	} {
		if code != exitUsage || !strings.Contains(problems, want) {
			t.Errorf("exit code %d:\n%s\nwant %s", code, problems, want)
		}
	}
}
