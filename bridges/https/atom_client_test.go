package https

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// feed is a page of Azure's, in which a queue has a property that this version does not know.
const feed = `<feed xmlns="http://www.w3.org/2005/Atom"><title>Queues</title>
<entry><title type="text">a/b</title><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">
<LockDuration>PT45S</LockDuration><SizeInBytes>5</SizeInBytes><ForwardTo>sb://ns.servicebus.windows.net/c</ForwardTo><Colour>red</Colour><Nothing/><DefaultMessageTimeToLive>P10675199DT2H48M5.4775807S</DefaultMessageTimeToLive>
</QueueDescription></content></entry></feed>`

func TestAdminClientReportsUnknownProperties(t *testing.T) {
	t.Parallel()
	var asked []string
	azure := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization")+r.Header.Get("If-Match"))
		switch {
		case strings.HasPrefix(r.URL.Path, "/$Resources/") && r.URL.Query().Get("$skip") == "0":
			_, _ = io.WriteString(w, feed)
		case r.Method == http.MethodPut:
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `<Error><Code>409</Code><Detail>It is there. TrackingId:x</Detail></Error>`)
		case r.URL.Path == "/html":
			_, _ = io.WriteString(w, `<html><body>`)
		default:
			_, _ = io.WriteString(w, `<feed xmlns="http://www.w3.org/2005/Atom"></feed>`)
		}
	}))
	t.Cleanup(azure.Close)
	var foreign []string
	c := &AdminClient{Origin: azure.URL, HTTP: azure.Client(), Authorize: func(string) string { return "token" }, Foreign: func(entity, property, value string) {
		foreign = append(foreign, fmt.Sprint(entity, " ", property, " ", value))
	}}
	all, _, err := c.Entities(t.Context(), nil, core.Listing{Kind: core.Queue}, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	want := core.DefaultSettings(core.Queue)
	want.LockDuration, want.ForwardTo, want.MaxMessageSizeInKilobytes = 45*time.Second, "sb://ns.servicebus.windows.net/c", 256
	if len(all) != 1 || all[0].Name != "a/b" || !reflect.DeepEqual(all[0].Settings, want) {
		t.Errorf("got %+v\nwant %+v", all, want)
	}
	if got := strings.Join(foreign, ","); got != "a/b Colour red" {
		t.Errorf("foreign: got %s", got)
	}
	if _, _, err := c.Entity(t.Context(), nil, "none"); core.CodeOf(err) != core.NotFound {
		t.Errorf("a missing entity: got %v", err)
	}
	if _, err := c.CreateEntity(t.Context(), nil, core.Queue, "a/b", want, nil); core.CodeOf(err) != core.AlreadyExists || !strings.Contains(err.Error(), "It is there") {
		t.Errorf("an entity that exists: got %v", err)
	}
	if _, _, err := c.Entity(t.Context(), nil, "html"); err == nil || !strings.Contains(err.Error(), "a document of the management API") {
		t.Errorf("another service: got %v", err)
	}
	if _, err := c.UpdateRule(t.Context(), nil, "t/Subscriptions/s", core.Rule{Name: "a b", Filter: core.Filter{Kind: core.TrueFilter}}); core.CodeOf(err) != core.AlreadyExists {
		t.Errorf("got %v", err)
	}
	if last := asked[len(asked)-1]; last != "PUT /t/Subscriptions/s/Rules/a%20b?api-version=2024-05 token*" {
		t.Errorf("asked %q", last)
	}
}

func TestTheAdminClientAsksABusyNamespaceAgain(t *testing.T) {
	t.Parallel()
	asked := 0
	azure := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked++; {
		case r.URL.Path == "/empty/Subscriptions":
		case asked <= 2:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader([]int{http.StatusTooManyRequests, http.StatusServiceUnavailable}[asked-1])
		default:
			_, _ = io.WriteString(w, `<feed xmlns="http://www.w3.org/2005/Atom"></feed>`)
		}
	}))
	t.Cleanup(azure.Close)
	c := &AdminClient{Origin: azure.URL, HTTP: azure.Client(), Authorize: func(string) string { return "token" }}
	if all, _, err := c.Entities(t.Context(), nil, core.Listing{Kind: core.Queue}, 0, 1000); err != nil || len(all) != 0 || asked != 3 {
		t.Errorf("got %v, %v after %d requests", all, err, asked)
	}
	c.Attempts, asked = 1, 0
	if _, _, err := c.Entities(t.Context(), nil, core.Listing{Kind: core.Queue}, 0, 1000); err == nil || asked != 1 {
		t.Errorf("asked once: got %v after %d requests", err, asked)
	}
	if _, _, err := c.Entities(t.Context(), nil, core.Listing{Kind: core.Subscription, Topic: "empty"}, 0, 1000); err == nil || !strings.Contains(err.Error(), "not a document of the management API") {
		t.Errorf("an empty answer: got %v", err)
	}
}
