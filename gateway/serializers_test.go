package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

const serializersFile = `
queues: [{name: plain}, {name: checked}]
topics:
  - name: orders
    subscriptions:
      - name: large
        rules: [{name: r, sql: "body.order.total > 100 AND body.order.lines[0].sku LIKE 'A-%'"}]
serializers:
  chain: [json, msgpack, cbor, amqp]
  entities:
    - {name: checked, chain: [json, cbor], deliver: application/cbor}
`

// startWithFile starts a gateway with a configuration file.
func startWithFile(t *testing.T, content string) *gateway {
	t.Helper()
	return startGateway(t, "--store=memory", "--config="+writeFile(t, "c.yaml", content))
}

// rest makes a request of the REST API; headers are "Name: value".
func (g *gateway) rest(t *testing.T, method, path, body string, headers ...string) (status int, contentType, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+g.address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", auth.SignSAS("http://"+g.address+"/", config.DevPolicy, config.DevKey, time.Now().Add(time.Hour)))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(b)
}

func (g *gateway) post(t *testing.T, path, contentType, body string) {
	t.Helper()
	if status, _, answer := g.rest(t, "POST", path+"/messages", body, "Content-Type: "+contentType); status != http.StatusCreated {
		t.Fatalf("send to %s: got %d %s", path, status, answer)
	}
}

func TestPayloadsAreRewrittenForWhoAsks(t *testing.T) {
	t.Parallel()
	g := startWithFile(t, serializersFile)
	for _, c := range []struct{ accept, want string }{
		{"*/*", `application/json {"n": 1}`},
		{"application/msgpack", "application/msgpack \x81\xa1n\x01"},
		{"application/cbor, */*;q=0.1", "application/cbor \xa1\x61n\x01"},
		{"image/png", `application/json {"n": 1}`},
	} {
		g.post(t, "/plain", "application/json", `{"n": 1}`)
		status, contentType, body := g.rest(t, "DELETE", "/plain/messages/head?timeout=5", "", "Accept: "+c.accept)
		if got := contentType + " " + body; status != http.StatusOK || got != c.want {
			t.Errorf("%s: got %d %q, want %q", c.accept, status, got, c.want)
		}
	}
}

// Who accepts nothing that there is gets what there is: a refusal would come too
// late for a message that was received.
func TestNoRequestGets406(t *testing.T) {
	t.Parallel()
	g := startWithFile(t, serializersFile)
	for _, accept := range []string{"image/png", "application/json;q=0", "*/*;q=0", "nonsense", ";;", "text/event-stream"} {
		g.post(t, "/plain", "application/json", `{"n": 1}`)
		for path, want := range map[string]int{
			"DELETE /plain/messages/head?timeout=5": http.StatusOK,
			"GET /plain":                            http.StatusOK,
			"GET /health":                           http.StatusOK,
			"GET /$crosstown/plugins":               http.StatusOK,
		} {
			method, path, _ := strings.Cut(path, " ")
			if status, _, body := g.rest(t, method, path, "", "Accept: "+accept); status != want {
				t.Errorf("%s %s, Accept %q: got %d %s", method, path, accept, status, body)
			}
		}
	}
}

func (g *gateway) dial(t *testing.T) *goamqp.Session {
	t.Helper()
	c, err := goamqp.Dial(t.Context(), "amqp://"+g.address, &goamqp.ConnOptions{SASLType: goamqp.SASLTypePlain(config.DevPolicy, config.DevKey)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s, err := c.NewSession(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAMQPValuesAreRewrittenForWhoAsks(t *testing.T) {
	t.Parallel()
	g := startWithFile(t, serializersFile)
	s := g.dial(t)
	send, err := s.NewSender(t.Context(), "plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := send.Send(t.Context(), &goamqp.Message{Value: map[string]any{"n": int32(5)}}, nil); err != nil {
		t.Fatal(err)
	}
	for accept, want := range map[string]string{"application/json": `application/json {"n":5}`, "application/msgpack": "application/msgpack \x81\xa1n\x05"} {
		receive, err := s.NewReceiver(t.Context(), "plain", &goamqp.ReceiverOptions{
			Properties: map[string]any{"com.crosstown:accept": accept}, SettlementMode: goamqp.ReceiverSettleModeSecond.Ptr(), Credit: -1,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := receive.IssueCredit(1); err != nil { // no more: what is released would come again
			t.Fatal(err)
		}
		m := receiveOne(t, receive)
		if got := fmt.Sprintf("%s %s", *m.Properties.ContentType, m.GetData()); got != want {
			t.Errorf("%s: got %q, want %q", accept, got, want)
		}
		if err := receive.ReleaseMessage(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if err := receive.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	_, contentType, body := g.rest(t, "DELETE", "/plain/messages/head?timeout=5", "")
	if got, want := contentType+" "+body, `application/json {"n":5}`; got != want {
		t.Errorf("HTTP: got %q, want %q", got, want)
	}
}

func receiveOne(t *testing.T, r *goamqp.Receiver) *goamqp.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m, err := r.Receive(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestUndecodableMessagesAreDeadLettered(t *testing.T) {
	t.Parallel()
	g := startWithFile(t, serializersFile)
	g.post(t, "/checked", "application/json", "\xff")
	g.post(t, "/checked", "application/json", `{"n": 1}`)
	status, contentType, body := g.rest(t, "POST", "/checked/messages/head?timeout=5", "")
	if got, want := contentType+" "+body, "application/cbor \xa1\x61n\x01"; status != http.StatusCreated || got != want {
		t.Errorf("got %d %q, want %q", status, got, want)
	}
	m := receiveOne(t, func() *goamqp.Receiver {
		r, err := g.dial(t).NewReceiver(t.Context(), "checked/$DeadLetterQueue", nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}())
	if got := string(m.GetData()); got != "\xff" {
		t.Errorf("got %q, want what was sent", got)
	}
	want := `The payload, declared as "application/json", could not be deserialized. Tried: ` +
		"json for application/json: not JSON: a string is not UTF-8 at byte 0; cbor: not CBOR: a break code is outside of an indefinite-length value at byte 1."
	if m.ApplicationProperties["DeadLetterReason"] != "DeserializationFailed" || m.ApplicationProperties["DeadLetterErrorDescription"] != want {
		t.Errorf("got %v, want %s", m.ApplicationProperties, want)
	}
}

func TestRulesLookIntoBodiesOfEveryFormat(t *testing.T) {
	t.Parallel()
	g := startWithFile(t, serializersFile)
	g.post(t, "/orders", "application/json", `{"order": {"total": 99, "lines": [{"sku": "A-1"}]}}`)
	g.post(t, "/orders", "application/json", `{"order": {"total": 101, "lines": [{"sku": "B-1"}]}}`)
	g.post(t, "/orders", "image/png", "\x89PNG")
	g.post(t, "/orders", "application/json", `{"order": {"total": 101, "lines": [{"sku": "A-json"}]}}`)
	g.post(t, "/orders", "application/msgpack", "\x81\xa5order\x82\xa5total\xcd\x01\x00\xa5lines\x91\x81\xa3sku\xa5A-pac")
	for _, want := range []string{"A-json", "A-pac"} {
		status, _, body := g.rest(t, "DELETE", "/orders/Subscriptions/large/messages/head?timeout=5", "")
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("got %d %q, want %s", status, body, want)
		}
	}
	if status, _, body := g.rest(t, "DELETE", "/orders/Subscriptions/large/messages/head?timeout=0", ""); status != http.StatusNoContent {
		t.Errorf("one too many: got %d %q", status, body)
	}
}

func TestWithoutSerializersNothingIsRewritten(t *testing.T) {
	t.Parallel()
	g := startWithFile(t, "queues: [{name: plain}]\ntopics: [{name: t, subscriptions: [{name: s, rules: [{name: r, sql: body.n = 1}]}]}]")
	g.post(t, "/plain", "application/json", `{"n": 1}`)
	_, contentType, body := g.rest(t, "DELETE", "/plain/messages/head?timeout=5", "", "Accept: application/msgpack")
	if got, want := contentType+" "+body, `application/json {"n": 1}`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	g.post(t, "/t", "application/json", `{"n": 1}`)
	if status, _, body := g.rest(t, "DELETE", "/t/Subscriptions/s/messages/head?timeout=5", ""); status != http.StatusOK {
		t.Errorf("a rule on a field of JSON: got %d %s", status, body)
	}
}

// avroFile has the example plugin serve a queue that takes nothing but Avro and JSON.
const avroFile = `
plugins: [{name: avro, path: %q, args: [../examples/plugins/avro/schemas], backoff-min: 10ms}]
queues: [{name: orders}]
serializers:
  chain: [json, avro]
  entities: [{name: orders, chain: [avro, json]}]
`

const orderJSON = `{"id":"01000000-0000-0000-0000-000000000002","placed":"2023-11-14T22:13:20.123Z","customer":null,"state":"PAID",` +
	`"total":125.50,"lines":[{"sku":"A-1","quantity":2,"weight":1.5}],"labels":{}}`

func TestPluginsAreSerializers(t *testing.T) {
	t.Parallel()
	g := startWithFile(t, fmt.Sprintf(avroFile, buildProgram(t, "../examples/plugins/avro")))
	g.post(t, "/orders", "application/json", orderJSON)
	status, contentType, order := g.rest(t, "DELETE", "/orders/messages/head?timeout=5", "", "Accept: application/avro; schema=shop.Order")
	if status != http.StatusOK || contentType != "application/avro; schema=shop.Order" || !strings.HasPrefix(order, "\xc3\x01") {
		t.Fatalf("as Avro: got %d %s %q", status, contentType, order)
	}
	g.post(t, "/orders", "application/avro", order)
	if _, contentType, body := g.rest(t, "DELETE", "/orders/messages/head?timeout=5", "", "Accept: application/json"); contentType != "application/json" || body != orderJSON {
		t.Errorf("as JSON: got %s %s, want %s", contentType, body, orderJSON)
	}
	g.post(t, "/orders", "application/avro", "\xc3\x01broken")
	g.post(t, "/orders", "application/avro", order)
	killPlugin(t, g)
	if status, _, body := g.rest(t, "POST", "/orders/messages/head?timeout=10", "", "Accept: application/json"); status != http.StatusCreated || body != orderJSON {
		t.Errorf("from a plugin that was killed: got %d %s", status, body)
	}
	status, _, body := g.rest(t, "DELETE", "/orders/$DeadLetterQueue/messages/head?timeout=5", "")
	if status != http.StatusOK || body != "\xc3\x01broken" {
		t.Errorf("dead letter: got %d %q", status, body)
	}
}

// killPlugin kills the one plugin's process.
func killPlugin(t *testing.T, g *gateway) {
	t.Helper()
	_, _, answer := g.rest(t, "GET", api.PluginsPath, "")
	var states []host.State
	if err := json.Unmarshal([]byte(answer), &states); err != nil || len(states) != 1 {
		t.Fatalf("plugins: got %s, %v", answer, err)
	}
	pid, err := strconv.Atoi(states[0].PID)
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}
