package https_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/bridges/https"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// gateway is a bridge before the real broker, over TLS.
type gateway struct {
	*httptest.Server
	host string
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	store := memory.New(memory.Options{})
	b := broker.New(store, broker.Options{Namespace: "ns"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	authority := auth.New(auth.Options{
		Policies: []core.AccessRule{
			{Name: "root", PrimaryKey: "SAS_KEY_VALUE", Rights: core.AllRights},
			{Name: "low", PrimaryKey: "low key", Rights: core.Listen},
		},
		Entities: func(ctx context.Context, name string) (core.Entity, error) { return store.Entity(ctx, "ns", name) },
	})
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	srv := httptest.NewTLSServer(https.New(b, authority, https.Options{Logger: log}).Handler())
	t.Cleanup(func() {
		srv.Close()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("broker: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("store: %v", err)
		}
	})
	return &gateway{srv, strings.TrimPrefix(srv.URL, "https://")}
}

// admin is the official client, with the given policy and api-version.
func (g *gateway) admin(t *testing.T, policy, key, apiVersion string) *admin.Client {
	t.Helper()
	c, err := admin.NewClientFromConnectionString(
		fmt.Sprintf("Endpoint=sb://%s/;SharedAccessKeyName=%s;SharedAccessKey=%s", g.host, policy, key),
		&admin.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: g.Client(), APIVersion: apiVersion}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (g *gateway) root(t *testing.T) *admin.Client { return g.admin(t, "root", "SAS_KEY_VALUE", "") }

// call sends a request with a token for the URL itself and returns the answer and its body.
func (g *gateway) call(t *testing.T, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	url := path
	if strings.HasPrefix(path, "/") {
		url = g.URL + path
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", auth.SignSAS(strings.ToLower(url), "root", "SAS_KEY_VALUE", time.Now().Add(time.Minute)))
	for _, h := range headers {
		name, v, _ := strings.Cut(h, ": ")
		r.Header.Set(name, v)
	}
	res, err := g.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

func TestOfficialAdminClient(t *testing.T) {
	t.Parallel()
	for _, apiVersion := range []string{"", "2021-05", "2017-04"} {
		t.Run("api-version "+apiVersion, func(t *testing.T) {
			t.Parallel()
			testAdmin(t, newGateway(t), apiVersion)
		})
	}
}

func testAdmin(t *testing.T, g *gateway, apiVersion string) {
	c, ctx := g.admin(t, "root", "SAS_KEY_VALUE", apiVersion), t.Context()
	ns, err := c.GetNamespaceProperties(ctx, nil)
	if err != nil || ns.Name != "ns" || ns.SKU != "Standard" || ns.MessagingUnits != nil || ns.CreatedTime.IsZero() || ns.ModifiedTime.IsZero() {
		t.Errorf("namespace: got %+v, %v", ns, err)
	}

	status := admin.EntityStatusReceiveDisabled
	want := admin.QueueProperties{
		LockDuration: new("PT45S"), EnablePartitioning: new(false), MaxSizeInMegabytes: new(int32(2048)),
		RequiresDuplicateDetection: new(true), RequiresSession: new(false), DefaultMessageTimeToLive: new("P10675199DT2H48M5.4775807S"),
		DeadLetteringOnMessageExpiration: new(true), DuplicateDetectionHistoryTimeWindow: new("PT4H"), MaxDeliveryCount: new(int32(100)),
		EnableBatchedOperations: new(false), Status: &status, AutoDeleteOnIdle: new("P10675199DT2H48M5.4775807S"),
		UserMetadata: new("some <metadata>"), MaxMessageSizeInKilobytes: new(int64(256)),
		AuthorizationRules: []admin.AuthorizationRule{{
			KeyName: new("rule"), PrimaryKey: new("p"), SecondaryKey: new("s"),
			AccessRights: []admin.AccessRight{admin.AccessRightSend, admin.AccessRightListen},
		}},
	}
	if apiVersion == "2017-04" { // which does not know it
		want.MaxMessageSizeInKilobytes = nil
	}
	const name = "orders/eu~1"
	created, err := c.CreateQueue(ctx, name, &admin.CreateQueueOptions{Properties: &want})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	undate(&created.QueueProperties)
	if !reflect.DeepEqual(created.QueueProperties, want) {
		t.Errorf("create: got %+v, want %+v", created.QueueProperties, want)
	}
	got, err := c.GetQueue(ctx, strings.ToUpper(name), nil)
	if err != nil || got == nil {
		t.Fatalf("get: got %v, %v", got, err)
	}
	undate(&got.QueueProperties)
	if !reflect.DeepEqual(got.QueueProperties, want) {
		t.Errorf("get: got %+v, want %+v", got.QueueProperties, want)
	}
	_, err = c.CreateQueue(ctx, name, nil)
	wantStatus(t, "create again", err, http.StatusConflict, "SubCode=40900.")

	want.MaxDeliveryCount, want.AuthorizationRules = new(int32(5)), nil
	updated, err := c.UpdateQueue(ctx, name, want, nil)
	if err != nil || !reflect.DeepEqual(updated.QueueProperties, want) {
		t.Errorf("update: got %+v, %v, want %+v", updated.QueueProperties, err, want)
	}
	changed := want
	changed.RequiresDuplicateDetection = new(false)
	_, err = c.UpdateQueue(ctx, name, changed, nil)
	wantStatus(t, "change what is fixed", err, http.StatusBadRequest, "RequiresDuplicateDetection")
	_, err = c.UpdateQueue(ctx, "missing", want, nil)
	wantStatus(t, "update a missing queue", err, http.StatusNotFound, "could not be found")

	runtime, err := c.GetQueueRuntimeProperties(ctx, name, nil)
	if err != nil || runtime == nil || runtime.CreatedAt.IsZero() || runtime.UpdatedAt.IsZero() || runtime.TotalMessageCount != 0 {
		t.Errorf("runtime: got %+v, %v", runtime, err)
	}
	missing, err := c.GetQueue(ctx, "missing", nil)
	if err != nil || missing != nil {
		t.Errorf("get a missing queue: got %v, %v, want neither", missing, err)
	}

	for i := range 6 {
		if _, err := c.CreateQueue(ctx, fmt.Sprintf("page%d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	pager := c.NewListQueuesPager(&admin.ListQueuesOptions{MaxPageSize: 3})
	var names []string
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range page.Queues {
			names = append(names, q.QueueName)
		}
	}
	if got, want := strings.Join(names, " "), name+" page0 page1 page2 page3 page4 page5"; got != want {
		t.Errorf("list: got %s, want %s", got, want)
	}
	if topic, err := c.GetTopic(ctx, "topic", nil); err != nil || topic != nil {
		t.Errorf("get a missing topic: got %v, %v, want neither", topic, err)
	}

	if _, err := c.DeleteQueue(ctx, name, nil); err != nil {
		t.Errorf("delete: %v", err)
	}
	_, err = c.DeleteQueue(ctx, name, nil)
	wantStatus(t, "delete again", err, http.StatusNotFound, "could not be found")
}

// undate removes what the broker decides.
func undate(p *admin.QueueProperties) {
	for i := range p.AuthorizationRules {
		p.AuthorizationRules[i].CreatedTime, p.AuthorizationRules[i].ModifiedTime = nil, nil
	}
}

func wantStatus(t *testing.T, what string, err error, status int, text string) {
	t.Helper()
	re, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok || re.StatusCode != status || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got %v, want %d %s", what, err, status, text)
	}
}

func TestOfficialAdminClientWithoutRights(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ctx := t.Context()
	if _, err := g.root(t).CreateQueue(ctx, "q", nil); err != nil {
		t.Fatal(err)
	}
	low := g.admin(t, "low", "low key", "")
	if q, err := low.GetQueue(ctx, "missing", nil); err != nil || q != nil {
		t.Errorf("get a missing queue: got %v, %v, want neither", q, err)
	}
	_, err := low.GetQueue(ctx, "q", nil)
	wantStatus(t, "get", err, 401, ">Manage,EntityRead claims required for this operation")
	_, err = low.NewListQueuesPager(nil).NextPage(ctx)
	wantStatus(t, "list", err, 401, ">Manage,EntityRead claims required for this operation")
	_, err = low.CreateQueue(ctx, "new", nil)
	wantStatus(t, "create", err, 401, "Authorization failed for specified action: Manage,EntityWrite")
	_, err = low.UpdateQueue(ctx, "new", admin.QueueProperties{}, nil)
	wantStatus(t, "update", err, 401, "Authorization failed for specified action: Manage,EntityWrite")
	_, err = low.DeleteQueue(ctx, "q", nil)
	wantStatus(t, "delete", err, 401, "Authorization failed for specified action: Manage,EntityDelete.")
	_, err = g.admin(t, "root", "wrong", "").GetQueue(ctx, "q", nil)
	wantStatus(t, "wrong key", err, 401, "InvalidSignature")
}

func TestMessagesThroughTheRealBroker(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.root(t)
	if _, err := c.CreateQueue(t.Context(), "a/q", &admin.CreateQueueOptions{Properties: &admin.QueueProperties{MaxDeliveryCount: new(int32(2))}}); err != nil {
		t.Fatal(err)
	}
	step := func(what, method, path, body string, status int, headers ...string) (*http.Response, string) {
		t.Helper()
		res, text := g.call(t, method, path, body, headers...)
		if res.StatusCode != status {
			t.Fatalf("%s: got %s %s, want %d", what, res.Status, text, status)
		}
		return res, text
	}
	step("receive from an empty queue", "POST", "/a/q/messages/head?timeout=0", "", 204)
	step("send", "POST", "/a/q/messages", "hello", 201, "Content-Type: text/plain", `BrokerProperties: {"MessageId":"m1","TimeToLive":60}`, `Priority: "High"`)
	res, text := step("peek-lock", "POST", "/a/q/messages/head?timeout=0", "", 201)
	if text != "hello" || res.Header.Get("Priority") != `"High"` || res.Header.Get("Content-Type") != "text/plain" ||
		!strings.Contains(res.Header.Get("BrokerProperties"), `"MessageId":"m1"`) || !strings.Contains(res.Header.Get("BrokerProperties"), `"TimeToLive":60}`) {
		t.Errorf("got %s %v", text, res.Header)
	}
	lock := res.Header.Get("Location")
	step("while it is locked", "POST", "/a/q/messages/head?timeout=0", "", 204)
	step("renew", "POST", lock, "", 200)
	step("unlock", "PUT", lock, "", 200)
	step("the lock is lost", "DELETE", lock, "", 404)
	res, _ = step("again", "POST", "/a/q/messages/head?timeout=5", "", 201)
	if !strings.HasPrefix(res.Header.Get("BrokerProperties"), `{"DeliveryCount":2,`) {
		t.Errorf("second delivery: got %s, want count 2", res.Header.Get("BrokerProperties"))
	}
	step("unlock the second time", "PUT", res.Header.Get("Location"), "", 200)
	res, text = step("dead letter", "POST", "/a/q/$DeadLetterQueue/messages/head?timeout=5", "", 201)
	if text != "hello" || res.Header.Get("DeadLetterReason") != `"MaxDeliveryCountExceeded"` {
		t.Errorf("dead letter: got %s %v", text, res.Header)
	}
	step("complete", "DELETE", strings.Replace(res.Header.Get("Location"), "/messages/", "/Messages/", 1), "", 200)
	const batch = "Content-Type: application/vnd.microsoft.servicebus.json"
	step("bad batch", "POST", "/a/q/messages", `[{"Body":"1"},{"Body":2}]`, 400, batch)
	step("batch", "POST", "/a/q/messages", `[{"Body":"1","UserProperties":{"n":1}},{"Body":"2"}]`, 201, batch)
	for _, want := range []string{"1", "2"} {
		if _, text := step("receive and delete", "DELETE", "/a/q/messages/head?timeout=5", "", 200); text != want {
			t.Errorf("got %s, want %s", text, want)
		}
	}
	runtime, err := c.GetQueueRuntimeProperties(t.Context(), "a/q", nil)
	if err != nil || runtime.TotalMessageCount != 0 {
		t.Errorf("at the end: got %+v, %v, want no messages", runtime, err)
	}
	step("too large", "POST", "/a/q/messages", strings.Repeat("x", 257<<10), 403)
	step("to the dead-letter queue", "POST", "/a/q/$DeadLetterQueue/messages", "x", 400)
	step("unknown entity", "POST", "/nope/messages", "x", 404)
	step("health", "GET", "/health", "", 200)
}
