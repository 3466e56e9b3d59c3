package https

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

func TestSendStoresTheMessage(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	w := call(newBridge(f), "POST", "/q/messages", "hello", "Content-Type: text/plain", "Content-Encoding: gzip",
		`BrokerProperties: {"MessageId":"m1","Label":"greeting"}`, "Priority: \"High\"", "Count: 3", "Order%20Id: 4")
	if w.Code != http.StatusCreated || w.Body.Len() != 0 {
		t.Fatalf("got %d %q, want 201 and no body", w.Code, w.Body)
	}
	stored := f.stored("q")
	if len(stored) != 1 {
		t.Fatalf("got %d messages, want 1", len(stored))
	}
	m := stored[0]
	if m.ContentType != "text/plain" || m.ContentEncoding != "gzip" || m.MessageID.String() != "m1" || m.Subject != "greeting" || string(m.Body.Bytes) != "hello" {
		t.Errorf("got %s", show(m.Message))
	}
	for key, want := range map[string]any{"Priority": "High", "Count": int32(3), "Order id": int32(4)} {
		if got, _ := m.Properties.Get(key); got != want {
			t.Errorf("property %s: got %T %v, want %v", key, got, got, want)
		}
	}
	if m.Properties.Len() != 3 {
		t.Errorf("got %d properties, want 3", m.Properties.Len())
	}
}

func TestEntityPathsInEverySpelling(t *testing.T) {
	t.Parallel()
	f := newFakeBus("a/b~c", "q", "q/$DeadLetterQueue")
	b := newBridge(f)
	for target, queue := range map[string]string{
		"/a/b~c/messages":     "a/b~c",
		"/a%2Fb%7Ec/Messages": "a/b~c",
		"/A/B~C/MESSAGES/":    "a/b~c",
		"/Q/messages":         "q",
		"http://bus.example/q/messages?timeout=60&api-version=2014-01": "q",
	} {
		if w := call(b, "POST", target, "x"); w.Code != http.StatusCreated {
			t.Errorf("send to %s: got %d %s, want 201", target, w.Code, w.Body)
		}
		if w := call(b, "DELETE", "/"+queue+"/Messages/Head?timeout=0", ""); w.Code != http.StatusOK || w.Body.String() != "x" {
			t.Errorf("receive what was sent to %s: got %d %s, want 200 x", target, w.Code, w.Body)
		}
	}
	f.put("q/$DeadLetterQueue", &core.Message{Body: core.Body{Bytes: []byte("dead")}})
	w := call(b, "POST", "/q/$deadletterqueue/messages/head", "")
	if w.Code != http.StatusCreated || w.Body.String() != "dead" {
		t.Fatalf("dead letter: got %d %s, want 201 dead", w.Code, w.Body)
	}
	if got, want := w.Header().Get("Location"), "http://example.com/q/$deadletterqueue/messages/1/00000000-0000-0001-0000-000000abcdef"; got != want {
		t.Errorf("Location: got %s, want %s", got, want)
	}
	if w := call(b, "DELETE", w.Header().Get("Location"), ""); w.Code != http.StatusOK || len(f.stored("q/$DeadLetterQueue")) != 0 {
		t.Errorf("complete the dead letter: got %d %s, want 200 and an empty queue", w.Code, w.Body)
	}
}

func TestPeekLockAnswersWithTheMessageAlone(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	p, err := core.NewProperties(core.Property{Key: "Priority", Value: "High"}, core.Property{Key: "when", Value: value.Timestamp(0)},
		core.Property{Key: "none", Value: nil}, core.Property{Key: "Date", Value: int32(1)})
	if err != nil {
		t.Fatal(err)
	}
	f.put("q", &core.Message{MessageID: core.StringID("m1"), ContentType: "text/plain", Properties: p, Body: core.Body{Bytes: []byte("hello")}})
	srv := httptest.NewServer(newBridge(f).Handler())
	defer srv.Close()
	r, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL+"/q/messages/head?timeout=5", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "SharedAccessSignature all")
	res, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusCreated {
		t.Fatalf("got %s, want 201", res.Status)
	}
	want := map[string]string{
		"Content-Type": "text/plain",
		"Brokerproperties": `{"DeliveryCount":1,"EnqueuedSequenceNumber":1,"EnqueuedTimeUtc":"Tue, 02 Jan 2024 03:04:05 GMT",` +
			`"LockToken":"00000000-0000-0001-0000-000000abcdef","LockedUntilUtc":"Tue, 02 Jan 2024 03:05:05 GMT","MessageId":"m1",` +
			`"SequenceNumber":1,"State":"Active","TimeToLive":922337203685.47754}`,
		"Location": srv.URL + "/q/messages/1/00000000-0000-0001-0000-000000abcdef",
		"Priority": `"High"`,
		"When":     `"Thu, 01 Jan 1970 00:00:00 GMT"`,
		"%44ate":   "1",

		"X-Content-Type-Options": "nosniff",
	}
	for name, v := range want {
		if got := res.Header.Get(name); got != v {
			t.Errorf("%s: got %s, want %s", name, got, v)
		}
		res.Header.Del(name)
	}
	res.Header.Del("Date") // of HTTP
	if len(res.Header) != 0 || res.ContentLength != -1 {
		t.Errorf("got more headers: %v, length %d, want none", res.Header, res.ContentLength)
	}
}

func TestPublicURLIsUsedInLinks(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	f.put("q", &core.Message{})
	b := New(f, f, Options{Logger: quiet(), PublicURL: "https://bus.example.com/"})
	w := call(b, "POST", "/q/messages/head", "")
	if got := w.Header().Get("Location"); !strings.HasPrefix(got, "https://bus.example.com/q/messages/1/") {
		t.Errorf("Location: got %s, want it below the public URL", got)
	}
}

func TestLocksAreSettled(t *testing.T) {
	t.Parallel()
	const token = "00000000-0000-0001-0000-000000abcdef"
	for name, c := range map[string]struct {
		method, id, token string
		status            int
		text              string
		outcome           core.Outcome
		settled           bool
	}{
		"complete by number":         {"DELETE", "1", token, 200, "", core.Complete, true},
		"complete by id":             {"DELETE", "a%2Fb%20c", token, 200, "", core.Complete, true},
		"complete by bare id":        {"DELETE", "a/b", token, 200, "", core.Complete, true},
		"complete by number-like id": {"DELETE", "77", token, 200, "", core.Complete, true},
		"unlock":                     {"PUT", "1", token, 200, "", core.Abandon, true},
		"renew":                      {"POST", "1", token, 200, "", 0, false},
		"token without dashes":       {"DELETE", "1", strings.ReplaceAll(token, "-", ""), 200, "", core.Complete, true},
		"another's number":           {"DELETE", "2", token, 404, "does not belong to the message '2'", 0, false},
		"lost lock, complete":        {"DELETE", "1", "00000000-0000-0001-0000-000000000000", 404, "The lock supplied is invalid", 0, false},
		"lost lock, unlock":          {"PUT", "x", "00000000-0000-0001-0000-000000000000", 404, "The lock supplied is invalid", 0, false},
		"lost lock, renew":           {"POST", "1", "00000000-0000-0001-0000-000000000000", 404, "The lock supplied is invalid", 0, false},
		"no token":                   {"DELETE", "1", "nonsense", 400, "SubCode=40000. There is nothing to delete: 'nonsense' is not a lock token", 0, false},
		"wrong method":               {"GET", "1", token, 405, "GET is not allowed at this address: use DELETE, PUT, POST.", 0, false},
	} {
		f := newFakeBus("q")
		b := newBridge(f)
		f.put("q", &core.Message{MessageID: core.StringID("77")})
		if w := call(b, "POST", "/q/messages/head", ""); w.Code != http.StatusCreated {
			t.Fatalf("%s: peek-lock: got %d, want 201", name, w.Code)
		}
		w := call(b, c.method, "/q/messages/"+c.id+"/"+c.token, "")
		if w.Code != c.status {
			t.Errorf("%s: got %d %s, want %d", name, w.Code, w.Body, c.status)
		}
		if c.status == 200 && w.Body.Len() != 0 {
			t.Errorf("%s: got body %q, want none", name, w.Body)
		}
		if c.status != 200 && !strings.Contains(detail(t, w), c.text) {
			t.Errorf("%s: got %s, want %q", name, w.Body, c.text)
		}
		if got := len(f.settled) == 1; got != c.settled || got && f.settled[0].Outcome != c.outcome {
			t.Errorf("%s: got settlements %v, want %v %v", name, f.settled, c.settled, c.outcome)
		}
	}
}

func TestUnlockingSaysWhenTheMessageComesBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		headers []string
		key     string
		want    any
	}{
		"seconds":       {[]string{"x-crosstown-retry-after: 30", "x-other: 1"}, core.PropertyRetryAfter, int32(30)},
		"a fraction":    {[]string{"X-Crosstown-Retry-After: 0.5"}, core.PropertyRetryAfter, 0.5},
		"a duration":    {[]string{"x-crosstown-retry-after: PT1M"}, core.PropertyRetryAfter, "PT1M"},
		"a time":        {[]string{"x-crosstown-retry-at: 2026-02-01T12:00:00Z"}, core.PropertyRetryAt, "2026-02-01T12:00:00Z"},
		"a time quoted": {[]string{`x-crosstown-retry-at: "Tue, 02 Jan 2024 03:05:05 GMT"`}, core.PropertyRetryAt, value.TimestampOf(fakeNow.Add(time.Minute))},
	} {
		f := newFakeBus("q")
		b := newBridge(f)
		f.put("q", &core.Message{})
		if w := call(b, "POST", "/q/messages/head", ""); w.Code != http.StatusCreated {
			t.Fatalf("%s: peek-lock: got %d, want 201", name, w.Code)
		}
		if w := call(b, "PUT", "/q/messages/1/00000000-0000-0001-0000-000000abcdef", "", c.headers...); w.Code != http.StatusOK {
			t.Fatalf("%s: got %d %s, want 200", name, w.Code, w.Body)
		}
		p := f.settled[0].Properties
		if got, _ := p.Get(c.key); got != c.want || p.Len() != 1 {
			t.Errorf("%s: got %v of %d properties, want %v", name, got, p.Len(), c.want)
		}
	}
}

// brokerPropertiesOf finds the header, which is not in net/http's canonical form.
func brokerPropertiesOf(w *httptest.ResponseRecorder) string {
	for name, values := range w.Header() {
		if strings.EqualFold(name, "BrokerProperties") {
			return values[0]
		}
	}
	return ""
}

func TestAbandonedMessageCountsItsDelivery(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	b := newBridge(f)
	f.put("q", &core.Message{})
	w := call(b, "POST", "/q/messages/head", "")
	call(b, "PUT", w.Header().Get("Location"), "")
	w = call(b, "DELETE", "/q/messages/head", "")
	if props := brokerPropertiesOf(w); w.Code != 200 || !strings.HasPrefix(props, `{"DeliveryCount":2,`) || strings.Contains(props, "Lock") {
		t.Errorf("second delivery: got %d %v, want 200, count 2 and no lock", w.Code, props)
	}
	if w.Header().Get("Location") != "" || w.Header().Get("Content-Type") != typeBytes {
		t.Errorf("got headers %v, want no Location and %s", w.Header(), typeBytes)
	}
}

func TestBatchIsAllOrNothing(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	b := newBridge(f)
	const batch = "Content-Type: Application/vnd.microsoft.servicebus.json; charset=utf-8"
	w := call(b, "POST", "/q/messages", `[{"Body":"a"},{"Body":"b","BrokerProperties":{"TimeToLive":[]}}]`, batch)
	if got := detail(t, w); w.Code != 400 || !strings.Contains(got, "In message 1 (counted from 0) of the batch, BrokerProperties.TimeToLive is an array") {
		t.Errorf("got %d %s, want 400 that names element and field", w.Code, got)
	}
	if n := len(f.stored("q")); n != 0 {
		t.Errorf("got %d messages stored, want none", n)
	}
	if w := call(b, "POST", "/q/messages", `[{"Body":"a"},{"Body":"b"}]`, batch); w.Code != 201 || len(f.stored("q")) != 2 {
		t.Errorf("got %d %s and %d messages, want 201 and 2", w.Code, w.Body, len(f.stored("q")))
	}
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	const auth = "Authorization: "
	const sas = auth + "SharedAccessSignature "
	for name, c := range map[string]struct {
		method, target, header string
		status                 int
		text                   string
	}{
		"no token":             {"POST", "/q/messages", auth, 401, "MissingToken: "},
		"JWT":                  {"POST", "/q/messages", auth + "Bearer eyJx", 401, "InvalidSignature: "},
		"bare JWT":             {"GET", "/q", auth + "eyJhbGciOi.x.y", 401, "InvalidSignature: "},
		"JWT without claim":    {"POST", "/q/messages", auth + "Bearer listen", 401, "Unauthorized access. 'Send' claim(s) are required"},
		"other scheme":         {"POST", "/q/messages", auth + "Basic eA==", 401, "MalformedToken: The authorization scheme 'Basic' is not supported."},
		"bad signature":        {"POST", "/q/messages", sas + "wrong", 401, "InvalidSignature: "},
		"send without claim":   {"POST", "/q/messages", sas + "listen", 401, "Unauthorized access. 'Send' claim(s) are required"},
		"listen without claim": {"POST", "/q/messages/head", sas + "send", 401, "Unauthorized access. 'Listen' claim(s) are required"},
		"settle without claim": {"DELETE", "/q/messages/1/00000000-0000-0001-0000-000000abcdef", sas + "send", 401, "'Listen' claim(s)"},
		"expired":              {"POST", "/q/messages", sas + "old", 401, "ExpiredToken: "},
		"unknown entity":       {"POST", "/nope/messages", "", 404, "The messaging entity 'nope' could not be found."},
		"receive from unknown": {"DELETE", "/nope/messages/head", "", 404, "The messaging entity 'nope' could not be found."},
		"management node":      {"POST", "/q/$management/messages", "", 404, "could not be found"},
		"reserved name":        {"POST", "/$cbs/messages", "", 404, "could not be found"},
		"wrong method":         {"GET", "/q/messages", "", 405, "GET is not allowed at this address: use POST."},
		"wrong method at head": {"GET", "/q/messages/head", "", 405, "use POST, DELETE."},
		"no such resource":     {"POST", "/q/messages/tail", "", 404, "The resource does not exist"},
		"bad timeout":          {"POST", "/q/messages/head?timeout=soon", "", 400, "timeout is \"soon\": it must be a whole number of seconds."},
		"negative timeout":     {"POST", "/q/messages/head?timeout=-1", "", 400, "timeout is \"-1\""},
		"bad properties":       {"POST", "/q/messages", `BrokerProperties: {"TimeToLive":"x"}`, 400, "SubCode=40000. BrokerProperties.TimeToLive is"},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{c.header}
		}
		w := call(newBridge(newFakeBus("q")), c.method, c.target, "x", headers...)
		got := detail(t, w)
		if w.Code != c.status || !strings.Contains(got, c.text) || !strings.Contains(got, " TrackingId:") {
			t.Errorf("%s: got %d %s, want %d %s", name, w.Code, got, c.status, c.text)
		}
		if (w.Header().Get("WWW-Authenticate") != "") != (c.status == 401) {
			t.Errorf("%s: WWW-Authenticate: got %q", name, w.Header().Get("WWW-Authenticate"))
		}
	}
}

func TestBodyLimits(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	f.limit = 8
	b := newBridge(f)
	for body, status := range map[string]int{"12345678": 201, "123456789": 403} {
		if w := call(b, "POST", "/q/messages", body); w.Code != status {
			t.Errorf("%d bytes: got %d, want %d", len(body), w.Code, status)
		}
		// Without a Content-Length.
		r := httptest.NewRequest("POST", "/q/messages", struct{ *strings.Reader }{strings.NewReader(body)})
		r.ContentLength = -1
		r.Header.Set("Authorization", "SharedAccessSignature all")
		w := httptest.NewRecorder()
		b.Handler().ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("%d bytes in chunks: got %d %s, want %d", len(body), w.Code, w.Body, status)
		}
	}
}

func TestScopeOfASignedURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ scope, request, node, want string }{
		{"", "q/messages", "q", ""},
		{"q", "q/messages", "q", "q"},
		{"q/messages", "q/messages", "q", "q"},
		{"q/messages", "q/messages/head", "q", "q"},
		{"q/messages/head", "q/messages", "q", "q/messages/head"},
		{"other/messages", "q/messages", "q", "other/messages"},
		{"$resources/queues", "$resources/queues", "", ""},
		{"$namespaceinfo", "$resources/queues", "", "$namespaceinfo"},
		{"qq", "q/messages", "q", "qq"},
	} {
		if got := scopeOf(c.scope, c.request, c.node); got != c.want {
			t.Errorf("token for %q, request %q: got scope %q, want %q", c.scope, c.request, got, c.want)
		}
	}
}

func TestReceiveWaitsAndThenHasNothing(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]time.Duration{
		"/q/messages/head?timeout=7":    7 * time.Second,
		"/q/messages/head?timeout=0":    0,
		"/q/messages/head":              60 * time.Second,
		"/q/messages/head?timeout=9999": 60 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeBus("q")
			start := time.Now()
			w := call(newBridge(f), "POST", target, "")
			if got := time.Since(start); w.Code != http.StatusNoContent || got != want {
				t.Errorf("%s: got %d after %v, want 204 after %v", target, w.Code, got, want)
			}
			if n := len(f.queues["q"].waiting); n != 0 {
				t.Errorf("%s: %d receivers stay behind", target, n)
			}
		})
	}
}

func TestReceiveGetsWhatComesWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBus("q")
		b := newBridge(f)
		time.AfterFunc(5*time.Second, func() { call(b, "POST", "/q/messages", "late") })
		start := time.Now()
		w := call(b, "DELETE", "/q/messages/head?timeout=30", "")
		if got := time.Since(start); w.Code != 200 || w.Body.String() != "late" || got != 5*time.Second {
			t.Errorf("got %d %s after %v, want 200 late after 5s", w.Code, w.Body, got)
		}
	})
}

func TestReceiveGivesUpOnASilentBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBus("q")
		f.silent = true
		w := call(newBridge(f), "POST", "/q/messages/head?timeout=1", "")
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("got %d, want 503", w.Code)
		}
	})
}

// The broker may be removing a message for the receiver when the gateway drains.
func TestADrainDeliversWhatIsBeingRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeBus, b *Bridge) {
		draining, drain := context.WithCancel(t.Context())
		ctx := bridges.WithEnding(t.Context(), draining.Done())
		r := httptest.NewRequestWithContext(ctx, "DELETE", "/q/messages/head?timeout=30", nil)
		r.Header.Set("Authorization", "SharedAccessSignature all")
		w, done := httptest.NewRecorder(), make(chan struct{})
		go func() {
			defer close(done)
			b.Handler().ServeHTTP(w, r)
		}()
		synctest.Wait()
		f.removed = &core.Message{Body: core.Body{Bytes: []byte("removed")}}
		drain()
		<-done
		if w.Code != http.StatusOK || w.Body.String() != "removed" {
			t.Errorf("got %d %s, want 200 removed", w.Code, w.Body)
		}
		l, drain := listen(t, b, "/q/messages/stream?mode=receiveanddelete")
		l.take()
		f.removed = &core.Message{Body: core.Body{Bytes: []byte("removed too")}}
		drain()
		<-l.done
		if got := l.take(); !strings.Contains(got, "event: message") || !strings.Contains(got, "event: end") {
			t.Errorf("the stream got %q, want the message and the end", got)
		}
	})
}

func TestReceiveForAClientThatLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBus("q")
		b := newBridge(f)
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, "POST", "/q/messages/head", nil)
		r.Header.Set("Authorization", "SharedAccessSignature all")
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.Handler().ServeHTTP(httptest.NewRecorder(), r)
		}()
		synctest.Wait() // it is waiting
		cancel()
		<-done
		if n := len(f.queues["q"].waiting); n != 0 {
			t.Errorf("%d receivers stay behind", n)
		}
		// A message that was locked just before the client left is given back.
		f.put("q", &core.Message{})
		b.Handler().ServeHTTP(httptest.NewRecorder(), r)
		if len(f.settled) != 1 || f.settled[0].Outcome != core.Release || !f.stored("q")[0].LockToken.IsZero() {
			t.Errorf("got settlements %v, want one release", f.settled)
		}
	})
}

// brokenWriter is a connection that is gone.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) Write([]byte) (int, error) { return 0, http.ErrHandlerTimeout }

func TestUndeliverableMessageIsReleased(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	f.put("q", &core.Message{Body: core.Body{Bytes: []byte("x")}})
	r := httptest.NewRequest("POST", "/q/messages/head", nil)
	r.Header.Set("Authorization", "SharedAccessSignature all")
	newBridge(f).Handler().ServeHTTP(brokenWriter{httptest.NewRecorder()}, r)
	if len(f.settled) != 1 || f.settled[0].Outcome != core.Release {
		t.Errorf("got settlements %v, want one release", f.settled)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	f := newFakeBus()
	b := newBridge(f)
	healthy := `{"status":"healthy","store":{"engine":"fake","durable":false,"clockSkew":"1.5ms","warnings":["it forgets"]}}` + "\n"
	if w := call(b, "GET", "/health", "", "Authorization: "); w.Code != 200 || w.Body.String() != healthy {
		t.Errorf("healthy: got %d %s", w.Code, w.Body)
	}
	f.health = core.Refuse(core.Busy, "redis is away")
	w := call(b, "GET", "/health", "", "Authorization: ")
	if w.Code != 503 || w.Body.String() != "{\"status\":\"unhealthy\",\"reason\":\"redis is away\"}\n" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("unhealthy: got %d %s", w.Code, w.Body)
	}
	if w := call(b, "POST", "/health", ""); w.Code != 405 {
		t.Errorf("POST: got %d, want 405", w.Code)
	}
}

func TestMountedRoutesComeFirst(t *testing.T) {
	t.Parallel()
	answer := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
	}
	f := newFakeBus("q")
	b := New(f, f, Options{Logger: quiet(), Routes: map[string]http.Handler{
		"/metrics": answer("metrics"), "/$servicebus/websocket": answer("ws"), "/Console/": answer("console"), "/console/deep/": answer("deep"),
	}})
	for target, want := range map[string]string{
		"/metrics": "metrics", "/METRICS": "metrics", "/$ServiceBus/WebSocket": "ws", "/console/": "console", "/console/a/b": "console",
		"/console/deep/x": "deep",
	} {
		if w := call(b, "GET", target, ""); w.Body.String() != want {
			t.Errorf("%s: got %q, want %q", target, w.Body, want)
		}
	}
	if w := call(b, "GET", "/metrics/x", ""); w.Body.String() == "metrics" {
		t.Error("/metrics/x: got the handler of /metrics")
	}
}
