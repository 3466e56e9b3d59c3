package rightstest

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: sideBySide}}

type httpAnswer struct {
	status int
	header http.Header
	body   string
}

// request sends a request, and reads the answer or the beginning of a stream.
func (g *Gateway) request(t *testing.T, base, host, token, call, body string, header ...string) (httpAnswer, error) {
	t.Helper()
	method, path, _ := strings.Cut(call, " ")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		return httpAnswer{}, err
	}
	if _, port, ok := strings.Cut(strings.TrimPrefix(base, "http://"), ":"); ok {
		r.Host = host + ":" + port
	}
	if token != "" {
		r.Header.Set("Authorization", token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		return httpAnswer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	a := httpAnswer{status: resp.StatusCode, header: resp.Header}
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		return a, nil
	}
	text, err := io.ReadAll(resp.Body)
	a.body = string(text)
	return a, err
}

// An httpOperation is a request that needs a right. In its texts, {n} and {cell} become the id of
// the try, which is unique, and {lock} the number and token of a message that the owner, a client
// with all rights, has locked.
type httpOperation struct {
	needs  string
	call   string
	body   string
	header []string // names and values
	ok     []int    // statuses if it is allowed
	// before is what the owner does first: an HTTP request, "lock ENTITY" to lock a message, or
	// "lock SUBSCRIPTION by TOPIC", which sends that message to the topic.
	before, beforeBody string
	creates            string // queue or topic
	never              string // text that no answer may contain
}

const (
	queueEntry        = `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect">` + "SETTINGS" + `</QueueDescription></content></entry>`
	subscriptionEntry = `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><SubscriptionDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"/></content></entry>`
	ruleEntry         = `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><RuleDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><Filter i:type="SqlFilter"><SqlExpression>1=0</SqlExpression></Filter></RuleDescription></content></entry>`
	vendorBatch       = "application/vnd.microsoft.servicebus.json"
)

var (
	queueXML   = strings.Replace(queueEntry, "SETTINGS", "", 1)
	forwardXML = strings.Replace(queueEntry, "SETTINGS", "<ForwardTo>orders/express</ForwardTo>", 1)
	withID     = []string{"BrokerProperties", `{"MessageId":"{cell}"}`}
	change     = []string{"If-Match", "*"}
)

var httpOperations = []httpOperation{
	// Messages.
	{needs: "Send orders", call: "POST /orders/messages", body: "m", ok: []int{201}},
	{needs: "Send orders/express", call: "POST /orders/express/messages", body: "m", header: withID, ok: []int{201}},
	{needs: "Send orders2", call: "POST /orders2/messages", body: "m", ok: []int{201}},
	{needs: "Send news", call: "POST /news/messages", body: "m", ok: []int{201}},
	{needs: "Send orders/express", call: "POST /orders/express/messages", body: `[{"Body":"m","BrokerProperties":{"MessageId":"{cell}"}}]`, header: []string{"Content-Type", vendorBatch}, ok: []int{201}},
	{needs: "Send orders", call: "POST /orders/messages", body: "m", header: []string{"BrokerProperties", `{"ScheduledEnqueueTimeUtc":"Fri, 01 Jan 2100 00:00:00 GMT"}`}, ok: []int{201}},
	{needs: "Listen orders", call: "DELETE /orders/messages/head?timeout=0", ok: []int{200, 204}},
	{needs: "Listen orders/$deadletterqueue", call: "DELETE /orders/$deadletterqueue/messages/head?timeout=0", ok: []int{200, 204}},
	{needs: "Listen orders2", call: "DELETE /orders2/messages/head?timeout=0", ok: []int{200, 204}},
	{needs: "Listen orders/plain", call: "DELETE /orders/plain/messages/head?timeout=0", ok: []int{200, 204}},
	{needs: "Listen news/subscriptions/s", call: "DELETE /news/subscriptions/s/messages/head?timeout=0", ok: []int{200, 204}},
	{needs: "Listen news/subscriptions/s/$deadletterqueue", call: "DELETE /news/subscriptions/s/$deadletterqueue/messages/head?timeout=0", ok: []int{200, 204}},
	{needs: "Listen orders", call: "POST /orders/messages/head?timeout=0", ok: []int{201, 204}},
	{needs: "Listen orders/$deadletterqueue", call: "POST /orders/$deadletterqueue/messages/head?timeout=0", ok: []int{201, 204}},
	{needs: "Listen orders/plain", call: "POST /orders/plain/messages/head?timeout=0", ok: []int{201, 204}},
	{needs: "Listen news/subscriptions/s", call: "POST /news/subscriptions/s/messages/head?timeout=0", ok: []int{201, 204}},
	{needs: "Listen orders", call: "DELETE /orders/messages/{lock}", before: "lock orders", ok: []int{200}},
	{needs: "Listen orders/plain", call: "DELETE /orders/plain/messages/{lock}", before: "lock orders/plain", ok: []int{200}},
	{needs: "Listen orders", call: "PUT /orders/messages/{lock}", before: "lock orders", ok: []int{200}},
	{needs: "Listen orders", call: "POST /orders/messages/{lock}", before: "lock orders", ok: []int{200}},
	{needs: "Listen news/subscriptions/s", call: "POST /news/subscriptions/s/messages/{lock}", before: "lock news/subscriptions/s by news", ok: []int{200}},
	// Streams.
	{needs: "Listen orders", call: "GET /orders/messages/stream", ok: []int{200}},
	{needs: "Listen orders/$deadletterqueue", call: "GET /orders/$deadletterqueue/messages/stream", ok: []int{200}},
	{needs: "Listen orders/express", call: "GET /orders/express/messages/stream", ok: []int{200}},
	{needs: "Listen news/subscriptions/s", call: "GET /news/subscriptions/s/messages/stream?from=new", ok: []int{200}},
	{needs: "Listen news/subscriptions/s/$deadletterqueue", call: "GET /news/subscriptions/s/$deadletterqueue/messages/stream", ok: []int{200}},
	{needs: "Listen orders/$deadletterqueue", call: "GET /orders/$deadletterqueue/messages/stream?mode=receiveanddelete", ok: []int{200}},
	{needs: "Listen orders2", call: "GET /orders2/messages/stream?mode=receiveanddelete", ok: []int{200}},
	// Entities; the answer about a queue contains its keys.
	{needs: "Manage orders", call: "GET /orders", ok: []int{200}},
	{needs: "Manage orders/express", call: "GET /orders/express", ok: []int{200}},
	{needs: "Manage orders2", call: "GET /orders2", ok: []int{200}},
	{needs: "Manage news", call: "GET /news", ok: []int{200}},
	{needs: "Manage news/subscriptions/s", call: "GET /news/subscriptions/s", ok: []int{200}},
	{needs: "Manage orders/plain", call: "PUT /orders/plain", body: queueXML, header: change, ok: []int{200, 409}},
	{needs: "Manage news/subscriptions/s", call: "PUT /news/subscriptions/s", body: subscriptionEntry, header: change, ok: []int{200, 409}},
	{needs: "Manage new-{n}", call: "PUT /new-{n}", body: queueXML, ok: []int{201}, creates: "new-{n}"},
	{needs: "Manage orders/new-{n}", call: "PUT /orders/new-{n}", body: queueXML, ok: []int{201}, creates: "orders/new-{n}"},
	{needs: "Manage orders/new-{n}, Send orders/express", call: "PUT /orders/new-{n}", body: forwardXML, ok: []int{201}, creates: "orders/new-{n}"},
	{needs: "Manage news/subscriptions/n{n}", call: "PUT /news/subscriptions/n{n}", body: subscriptionEntry, ok: []int{201}},
	{needs: "Manage orders/old-{n}", call: "DELETE /orders/old-{n}", before: "PUT /orders/old-{n}", beforeBody: queueXML, ok: []int{200}},
	{needs: "Manage news/subscriptions/o{n}", call: "DELETE /news/subscriptions/o{n}", before: "PUT /news/subscriptions/o{n}", beforeBody: subscriptionEntry, ok: []int{200}},
	{needs: "Manage", call: "GET /$Resources/Queues?$top=1", ok: []int{200}},
	{needs: "Manage", call: "GET /$Resources/Topics?$top=1", ok: []int{200}},
	{needs: "Manage news", call: "GET /news/Subscriptions?$top=1", ok: []int{200}},
	{needs: "Manage", call: "GET /$NamespaceInfo", ok: []int{200}},
	{needs: "Manage news/subscriptions/s", call: "GET /news/subscriptions/s/rules?$top=1", ok: []int{200}},
	{needs: "Manage news/subscriptions/s", call: "GET /news/subscriptions/s/rules/$Default", ok: []int{200}},
	{needs: "Manage news/subscriptions/s", call: "PUT /news/subscriptions/s/rules/new-{n}", body: ruleEntry, ok: []int{201}},
	{needs: "Manage news/subscriptions/s", call: "DELETE /news/subscriptions/s/rules/old-{n}", before: "PUT /news/subscriptions/s/rules/old-{n}", beforeBody: ruleEntry, ok: []int{200}},
	// The gateway itself.
	{needs: "Listen orders", call: "GET /$crosstown/counters/orders", ok: []int{200}},
	{needs: "Listen orders/express", call: "GET /$crosstown/counters/orders/express", ok: []int{200}},
	{needs: "Manage orders", call: "GET /$crosstown/explain/orders?message-id=none", ok: []int{200, 404}},
	{needs: "Manage orders/express", call: "GET /$crosstown/explain/orders/express?message-id=none", ok: []int{200, 404}},
	{needs: "Manage orders", call: "POST /$crosstown/deposit/orders", ok: []int{200}},
	{needs: "Manage orders/$deadletterqueue", call: "POST /$crosstown/deposit/orders/$deadletterqueue", ok: []int{200}},
	{needs: "Manage orders/express", call: "POST /$crosstown/deposit/orders/express", ok: []int{200}},
	{needs: "Manage news/subscriptions/s", call: "POST /$crosstown/deposit/news/subscriptions/s", ok: []int{200}},
	{needs: "Listen orders", call: "GET /$crosstown/tap/orders?timeout=0", ok: []int{200}},
	{needs: "Listen orders/express", call: "GET /$crosstown/tap/orders/express?timeout=0", ok: []int{200}},
	{needs: "Listen orders", call: "POST /$crosstown/messages/orders", body: `{"numbers":[1]}`, ok: []int{200}},
	{needs: "Listen orders, Manage orders/express", call: "POST /$crosstown/messages/orders", body: `{"numbers":[99999],"to":"orders/express"}`, ok: []int{200}},
	// A number that no message has: otherwise, activation could end the lock of a concurrent try.
	{needs: "Manage orders", call: "POST /$crosstown/messages/orders", body: `{"numbers":[99999],"activate":true}`, ok: []int{200}},
	{needs: "Manage news", call: "POST /$crosstown/rules/news", body: `{"body":"b","state":"active"}`, ok: []int{200}},
	{needs: "Manage", call: "GET /$crosstown/metrics", ok: []int{200, 503}},
	{needs: "Manage", call: "GET /$crosstown/remotes", ok: []int{200}},
	{needs: "Manage", call: "GET /$crosstown/status", ok: []int{200}},
	{needs: "Manage", call: "GET /$crosstown/pushes", ok: []int{200}},
	{needs: "Manage", call: "GET /$crosstown/hooks", ok: []int{200}},
	{needs: "Manage", call: "GET /$crosstown/connections", ok: []int{200}},
	{needs: "Manage", call: "DELETE /$crosstown/connections/none", ok: []int{404}},
	{needs: "Manage", call: "GET /$crosstown/entities", ok: []int{200}},
	{needs: "Manage", call: "GET /$crosstown/history", ok: []int{200}},
	{needs: "Manage orders", call: "GET /$crosstown/history/orders", ok: []int{200}},
	{needs: "Listen sessions", call: "GET /$crosstown/sessions/sessions", ok: []int{200}},
	{needs: "Listen sessions", call: "PUT /$crosstown/sessions/sessions?session=set-{n}", body: `{"clear":true}`, ok: []int{200}},
	{needs: "Manage sessions", call: "PUT /$crosstown/sessions/sessions?session=none", body: `{"unlock":true}`, ok: []int{410}},
	{needs: "Listen orders", call: "GET /$crosstown/damaged/orders", ok: []int{200}},
	{needs: "operator", call: "GET /$crosstown/plugins", ok: []int{200}},
	{needs: "operator", call: "POST /$crosstown/plugins/none", ok: []int{404}},
	{needs: "operator", call: "GET /$crosstown/pipelines", ok: []int{200}},
	{needs: "Manage", call: "GET /$crosstown/namespaces", ok: []int{200}},
	{needs: "operator", call: "GET /$crosstown/namespaces/home", ok: []int{200}},
	{needs: "manager of other", call: "GET /$crosstown/namespaces/other", ok: []int{200}},
	{needs: "operator", call: "PUT /$crosstown/namespaces/made-{n}", ok: []int{201}},
	{needs: "operator", call: "POST /$crosstown/namespaces/spare/reset", ok: []int{200}},
	{needs: "operator", call: "POST /$crosstown/namespaces/spare/policies/RootManageSharedAccessKey/rotate", ok: []int{200}},
	{needs: "operator", call: "DELETE /$crosstown/namespaces/none", ok: []int{404}},
	{needs: "anybody", call: "GET /debug/pprof/", ok: []int{200, 401}, never: "goroutine"}, // also the name of an entity
	{needs: "anybody", call: "GET /health", ok: []int{200}},
	{needs: "anybody", call: "GET /client/crosstown.js", ok: []int{200}},
}

// adminOperations require no credential.
var adminOperations = []httpOperation{
	{needs: "anybody", call: "GET /metrics", ok: []int{200, 503}},
	{needs: "anybody", call: "GET /debug/pprof/cmdline", ok: []int{404}},
	{needs: "anybody", call: "GET /orders", ok: []int{404}},
	{needs: "anybody", call: "DELETE /orders/messages/head?timeout=0", ok: []int{404}},
	{needs: "anybody", call: "GET /$crosstown/namespaces", ok: []int{404}},
}

func (o *httpOperation) name() string {
	return strings.Join(append([]string{o.call}, o.header...), " ")
}

// url returns the path of the resource that a client's token must cover; "" for the gateway's own
// paths, which need a token for the namespace.
func (o *httpOperation) url(y *try) string {
	_, path, _ := strings.Cut(y.fill(o.call), " ")
	path, _, _ = strings.Cut(path, "?")
	if strings.HasPrefix(path, "/$crosstown/") {
		return ""
	}
	return strings.ToLower(strings.Trim(path, "/"))
}

func (o *httpOperation) prepare(t *testing.T, y *try) (call, body string, header []string) {
	t.Helper()
	call = y.fill(o.call)
	if locked, ok := strings.CutPrefix(o.before, "lock "); ok {
		from, into, _ := strings.Cut(locked, " by ")
		if into == "" {
			into = from
		}
		call = strings.Replace(call, "{lock}", y.owner().lock(t, y.may, into, from), 1)
	} else if o.before != "" {
		call = y.owner().prepare(y.may, o.before, func() string {
			y.owner().call(t, y.fill(o.before), o.beforeBody)
			return call
		})
	}
	for _, h := range o.header {
		header = append(header, y.fill(h))
	}
	return call, y.fill(o.body), header
}

func (o *httpOperation) try(t *testing.T, y *try, base, token string) {
	t.Helper()
	need := y.fill(o.needs)
	y.may = y.c.may(need, o.url(y))
	y.expect(strings.TrimPrefix(need, "Send "), o.creates)
	call, body, header := o.prepare(t, y)
	a, err := y.g.request(t, base, y.c.host, token, call, body, header...)
	if err != nil {
		t.Errorf("%s, %s: %v", y.c.name, call, err)
		return
	}
	y.check(t, answer{refused: a.status == http.StatusUnauthorized, allowed: slices.Contains(o.ok, a.status), text: a.body})
	if o.never != "" && strings.Contains(a.body, o.never) {
		t.Errorf("%s, %s: the response contains %q: %.300s", y.c.name, call, o.never, a.body)
	}
	if a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s: the response with status %d has no header X-Content-Type-Options: nosniff", call, a.status)
	}
}

func overHTTP(t *testing.T, g *Gateway, c *credential, p pool) {
	for i := range httpOperations {
		if o := &httpOperations[i]; p.chosen("HTTP", c.name, o.name()) {
			p.run(func() { o.try(t, g.try(c, "HTTP", o.name()), "http://"+g.address, c.token) })
		}
	}
	for i := range adminOperations {
		if o := &adminOperations[i]; p.chosen("admin", c.name, o.name()) {
			p.run(func() { o.try(t, g.try(c, "admin listener", o.name()), "http://"+g.admin, c.token) })
		}
	}
}

// A policy's name and key suffice only for what monitors read.
var basicOperations = []httpOperation{
	{needs: "Manage", call: "GET /$crosstown/metrics", ok: []int{200, 503}},
	{needs: "Listen orders", call: "GET /$crosstown/counters/orders", ok: []int{200}},
	{needs: "operator", call: "GET /$crosstown/plugins", ok: []int{200}},
	{needs: "Manage", call: "GET /$crosstown/namespaces", ok: []int{200}},
	{needs: "nobody", call: "PUT /$crosstown/namespaces/basic-{n}", ok: []int{201}},
	{needs: "nobody", call: "POST /$crosstown/namespaces/spare/reset", ok: []int{200}},
	{needs: "nobody", call: "POST /$crosstown/plugins/none", ok: []int{404}},
	{needs: "nobody", call: "POST /orders/express/messages", ok: []int{201}},
	{needs: "nobody", call: "DELETE /orders/messages/head?timeout=0", ok: []int{200, 204}},
	{needs: "nobody", call: "GET /orders", ok: []int{200}},
	{needs: "nobody", call: "GET /$Resources/Queues", ok: []int{200}},
}

func overBasic(t *testing.T, g *Gateway, c *credential, p pool) {
	if c.policy == "" {
		return
	}
	r := &http.Request{Header: http.Header{}}
	r.SetBasicAuth(c.policy, c.key)
	for i := range basicOperations {
		if o := &basicOperations[i]; p.chosen("Basic", c.name, o.name()) {
			p.run(func() { o.try(t, g.try(c, "HTTP Basic", o.name()), "http://"+g.address, r.Header.Get("Authorization")) })
		}
	}
}
