package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/gateway/internal/tracing/tracingtest"
	"github.com/crosstown-mq/crosstown/internal/variants"
)

// span is one of an application, below which a gateway's are to be.
type span struct{ id, header string }

// spanNumbered makes the only span of a trace.
func spanNumbered(n int) span {
	id := fmt.Sprintf("%016x", n)
	return span{id, fmt.Sprintf("00-%032x-%s-01", n, id)}
}

// wantTree compares what is below a span with a drawing.
func (e *env) wantTree(spans []tracingtest.Span, below span, want string) {
	e.Helper()
	if got := tracingtest.Tree(spans, below.id); got != want {
		e.Errorf("below %s: got\n%swant\n%s", below.id, got, want)
	}
}

// TestMessagesAreTracedThroughEveryProtocol sends by each protocol, through a
// plugin, to where messages are forwarded from, and settles what arrives; the
// gateway's spans are those that the collector has when the gateway has stopped.
func TestMessagesAreTracedThroughEveryProtocol(t *testing.T) {
	t.Parallel()
	variants.Each(t, func(t *testing.T, place string) {
		t.Parallel()
		collector := tracingtest.NewCollector(t)
		engine, protocol, _ := strings.Cut(place, "/")
		endpoint := collector.HTTP
		if protocol == "grpc" {
			endpoint = collector.GRPC
		}
		c := newCourier(t, "pipelines:\n  - entity: in\n    ingress: [{plugin: courier}]\n")
		e := &env{T: t, gw: own(t, storeOf(t, engine), "--config", c.config,
			"--traces-endpoint", endpoint, "--traces-protocol", protocol, "--traces-sample", "0"), plain: true}
		if !strings.Contains(e.gw.log.String(), "traces     "+endpoint) {
			t.Errorf("the start-up lines do not tell of traces:\n%s", &e.gw.log)
		}
		e.create("out", nil)
		e.create("in", &admin.QueueProperties{ForwardTo: new("out")})
		sdk, raw, socket, rest, restProperty := spanNumbered(1), spanNumbered(2), spanNumbered(3), spanNumbered(4), spanNumbered(5)

		e.post(e.sender("in"), &azservicebus.Message{Body: []byte("sdk"), MessageID: new("m1"), ApplicationProperties: map[string]any{"traceparent": sdk.header}})
		link, err := e.amqp().NewSender(e.ctx(), "in", nil)
		if err != nil {
			t.Fatal(err)
		}
		m := amqp.NewMessage([]byte("raw"))
		m.ApplicationProperties = map[string]any{"Diagnostic-Id": raw.header}
		if err := link.Send(e.ctx(), m, nil); err != nil {
			t.Fatal(err)
		}
		n := e.native()
		n.must(map[string]any{"op": "send", "entity": "in", "messages": []json.RawMessage{
			json.RawMessage(fmt.Sprintf(`{"properties":{"traceparent":%q},"text":"socket"}`, socket.header)),
		}})
		e.wantHTTP(e.http(http.MethodPost, "in/messages", "rest", http.Header{"Traceparent": {rest.header}}), http.StatusCreated)
		e.wantHTTP(e.http(http.MethodPost, "in/messages", "rest property", http.Header{"%74raceparent": {`"` + restProperty.header + `"`}}), http.StatusCreated)
		e.send("in", "not traced")

		r := e.receiver("out")
		e.complete(r, e.take(r, 6)...)
		e.gw.stop()
		spans := collector.Spans()
		for below, protocol := range map[span]string{sdk: "amqp", raw: "amqp", socket: "websocket", rest: "https", restProperty: "https"} {
			e.wantTree(spans, below, `send in
	forward out
		deliver out
			complete out
				store settle
	plugin courier
	store append
`)
			for _, s := range spans {
				if got := s.Attributes["network.protocol.name"]; s.Parent == below.id && got != protocol {
					t.Errorf("%s: protocol %v, want %s", s.Name, got, protocol)
				}
			}
		}
		if len(spans) != 5*7 {
			t.Errorf("got %d spans, want %d", len(spans), 5*7)
		}
		for _, s := range spans {
			if s.Resource["service.name"] != "crosstown" {
				t.Fatalf("%s: got resource %v", s.Name, s.Resource)
			}
			if n := s.Attributes["crosstown.namespace"]; n != "sbemulatorns" && s.Name != "plugin courier" {
				t.Errorf("%s: namespace %v", s.Name, n)
			}
		}
	}, "memory/http", "redis/grpc")
}

// TestOneTraceIsOfTwoGateways sends through one gateway and receives through
// another, of the same store.
func TestOneTraceIsOfTwoGateways(t *testing.T) {
	t.Parallel()
	collector := tracingtest.NewCollector(t)
	store := redistest.Start(t, redistest.Options{AOF: "always"}).URL()
	a := &env{T: t, gw: own(t, store, "--traces-endpoint", collector.HTTP, "--traces-sample", "1"), plain: true}
	b := &env{T: t, gw: own(t, store, "--traces-endpoint", collector.HTTP, "--traces-sample", "0"), plain: true}
	queue := a.queue(nil)
	a.send(queue, "hello") // it brings no trace along
	r := b.receiver(queue)
	b.complete(r, b.one(r))
	b.gw.stop()
	a.gw.stop()
	spans := collector.Spans()
	a.wantTree(spans, span{}, fmt.Sprintf("send %[1]s\n\tdeliver %[1]s\n\t\tcomplete %[1]s\n\t\t\tstore settle\n\tstore append\n", queue))
	for _, s := range spans {
		if s.Trace != spans[0].Trace {
			t.Errorf("%s is in another trace", s.Name)
		}
	}
}

// TestOneTraceIsOfTwoBrokers forwards from one gateway to another, which has a
// store of its own, and pulls from it.
func TestOneTraceIsOfTwoBrokers(t *testing.T) {
	t.Parallel()
	collector := tracingtest.NewCollector(t)
	there := &env{T: t, gw: own(t, "memory", "--traces-endpoint", collector.HTTP, "--traces-sample", "0"), plain: true}
	there.create("orders", nil)
	there.create("news", nil)
	file := filepath.Join(t.TempDir(), "crosstown.yaml")
	text := fmt.Sprintf("remotes:\n  - {name: hq, connection-string: %q, pull: [{from: news, into: local}]}\nqueues:\n  - {name: local}\n", there.gw.connection(devPolicy, devKey, true))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	here := &env{T: t, gw: own(t, "memory", "--config", file, "--traces-endpoint", collector.HTTP, "--traces-sample", "0"), plain: true}
	here.create("orders", &admin.QueueProperties{ForwardTo: new("hq:orders")})
	pushed, pulled := spanNumbered(1), spanNumbered(2)
	here.post(here.sender("orders"), &azservicebus.Message{ApplicationProperties: map[string]any{"traceparent": pushed.header}})
	there.post(there.sender("news"), &azservicebus.Message{ApplicationProperties: map[string]any{"traceparent": pulled.header}})
	for _, at := range []struct {
		e     *env
		queue string
	}{{there, "orders"}, {here, "local"}} {
		r := at.e.receiver(at.queue)
		at.e.complete(r, at.e.one(r))
	}
	here.eventually("what was pulled is settled there", func() bool { return there.runtime("news").TotalMessageCount == 0 })
	here.gw.stop()
	there.gw.stop()
	spans := slices.DeleteFunc(collector.Spans(), func(s tracingtest.Span) bool { return s.Error != "" }) // tries before the remote was reached
	here.wantTree(spans, pushed, `send orders
	forward hq:orders
		send orders
			deliver orders
				complete orders
					store settle
			store append
	store append
`)
	here.wantTree(spans, pulled, `send news
	deliver news
		complete news
			store settle
	forward local
		deliver local
			complete local
				store settle
	store append
`)
}

// TestCollectorThatHangsHurtsNobody has one that takes connections and never
// answers: messages pass, and the gateway stops in time.
func TestCollectorThatHangsHurtsNobody(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	e := &env{T: t, gw: own(t, "memory", "--traces-endpoint", "http://"+ln.Addr().String(), "--drain-timeout", "1s"), plain: true}
	queue := e.queue(nil)
	for range 3 {
		e.send(queue, strings.Fields(strings.Repeat("x ", 300))...)
	}
	r := e.receiver(queue)
	e.complete(r, e.take(r, 900)...)
	began := time.Now()
	e.gw.stop()
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it took %v to stop", took)
	}
	if log := e.gw.log.String(); !strings.Contains(log, "cannot send the last traces") {
		t.Errorf("the log does not say that traces were lost:\n%s", log)
	}
}
