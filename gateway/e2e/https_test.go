package e2e

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/core/auth"
)

// answer is an HTTP response, read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// broker reads the answer's BrokerProperties.
func (a answer) broker(e *env) map[string]any {
	e.Helper()
	var p map[string]any
	if err := json.Unmarshal([]byte(a.header.Get("BrokerProperties")), &p); err != nil {
		e.Fatalf("BrokerProperties %q: %v", a.header.Get("BrokerProperties"), err)
	}
	return p
}

// settleAt is the path and query of the message that a peek-lock answer names.
func (a answer) settleAt(e *env) string {
	e.Helper()
	u, err := url.Parse(a.header.Get("Location"))
	if err != nil || u.Path == "" {
		e.Fatalf("Location %q: %v", a.header.Get("Location"), err)
	}
	return strings.TrimPrefix(u.EscapedPath(), "/")
}

// http sends a request with a token of the development policy, over HTTP or
// HTTPS as the env says.
func (e *env) http(method, path, body string, header http.Header) answer {
	e.Helper()
	policy, key := e.credentials()
	token := auth.SignSAS("http://"+e.gw.host+"/", policy, key, time.Now().Add(time.Hour))
	return e.httpAs(token, method, path, body, header)
}

func (e *env) httpAs(token, method, path, body string, header http.Header) answer {
	e.Helper()
	scheme := "http://"
	if !e.plain {
		scheme = "https://"
	}
	request, err := http.NewRequestWithContext(e.ctx(), method, scheme+e.gw.host+"/"+path, strings.NewReader(body))
	if err != nil {
		e.Fatal(err)
	}
	maps.Copy(request.Header, header)
	if token != "" {
		request.Header.Set("Authorization", token)
	}
	transport := &http.Transport{TLSClientConfig: e.tls()}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		e.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	b, err := io.ReadAll(response.Body)
	if err != nil {
		e.Fatalf("%s %s: %v", method, path, err)
	}
	return answer{response.StatusCode, response.Header, string(b)}
}

// wantHTTP checks an answer's status.
func (e *env) wantHTTP(a answer, status int) answer {
	e.Helper()
	if a.status != status {
		e.Fatalf("got %d %s, want %d", a.status, a.body, status)
	}
	return a
}

func TestPostedOverHTTPSReceivedOverAMQP(t *testing.T) {
	everywhere(t, func(e *env) {
		e = e.inVirtualTime()
		queue := e.queue(nil)
		due := e.now().Add(time.Minute).UTC().Truncate(time.Second)
		e.wantHTTP(e.http(http.MethodPost, queue+"/messages", "grüße", http.Header{
			"Content-Type": {"text/plain;charset=utf-8"},
			"BrokerProperties": {`{"MessageId":"id-1","CorrelationId":"c","SessionId":"k","PartitionKey":"k","Label":"subject","ReplyTo":"r","To":"t",` +
				`"ReplyToSessionId":"rs","TimeToLive":90.5,"ScheduledEnqueueTimeUtc":"` + due.Format(http.TimeFormat) + `"}`},
			"Text": {`"quoted, and \"inner\""`}, "Count": {"42"}, "Big": {"4294967296"}, "Ratio": {"2.5"}, "Yes": {"true"},
			"When": {`"Sun, 06 Nov 1994 08:49:37 GMT"`}, "Bare": {"free text"},
		}), http.StatusCreated)
		e.advance(time.Minute)
		r := e.receiver(queue)
		m := e.one(r)
		if string(m.Body) != "grüße" || *m.ContentType != "text/plain;charset=utf-8" || m.MessageID != "id-1" || *m.CorrelationID != "c" ||
			*m.SessionID != "k" || *m.PartitionKey != "k" || *m.Subject != "subject" || *m.ReplyTo != "r" || *m.To != "t" ||
			*m.ReplyToSessionID != "rs" || *m.TimeToLive != 90500*time.Millisecond || !m.ScheduledEnqueueTime.Equal(due) {
			e.Errorf("got %+v", m)
		}
		if m.EnqueuedTime.Before(due) {
			e.Errorf("enqueued at %v, before it was due at %v", m.EnqueuedTime, due)
		}
		for k, want := range map[string]any{
			"Yes": true, "Ratio": 2.5, "Bare": "free text", "When": time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC).Local(), "Big": int64(4294967296),
		} {
			if got := m.ApplicationProperties[k]; got != want {
				e.Errorf("property %s: got %#v, want %#v", k, got, want)
			}
		}
		switch n := m.ApplicationProperties["Count"].(type) {
		case int32, int64:
		default:
			e.Errorf("property Count: got %#v, want the integer 42", n)
		}
		e.complete(r, m)
	})
}

func TestSentOverAMQPReceivedOverHTTPS(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		want := full()
		want.ApplicationProperties["when"] = time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)
		e.post(e.sender(queue), want)
		a := e.wantHTTP(e.http(http.MethodPost, queue+"/messages/head?timeout=10", "", nil), http.StatusCreated)
		if a.body != string(want.Body) || a.header.Get("Content-Type") != *want.ContentType {
			e.Errorf("got body %q of type %s", a.body, a.header.Get("Content-Type"))
		}
		p := a.broker(e)
		for k, v := range map[string]any{
			"MessageId": *want.MessageID, "CorrelationId": *want.CorrelationID, "SessionId": *want.SessionID, "PartitionKey": *want.PartitionKey,
			"Label": *want.Subject, "ReplyTo": *want.ReplyTo, "To": *want.To, "ReplyToSessionId": *want.ReplyToSessionID,
			"TimeToLive": 3600.0, "DeliveryCount": 1.0, "SequenceNumber": 1.0, "EnqueuedSequenceNumber": 1.0, "State": "Active",
		} {
			if p[k] != v {
				e.Errorf("%s: got %v, want %v", k, p[k], v)
			}
		}
		for _, k := range []string{"EnqueuedTimeUtc", "LockedUntilUtc"} {
			s, _ := p[k].(string)
			if at, err := http.ParseTime(s); err != nil || time.Until(at).Abs() > 2*time.Minute {
				e.Errorf("%s: got %q", k, s)
			}
		}
		if token, _ := p["LockToken"].(string); len(token) != 36 {
			e.Errorf("LockToken: got %q", token)
		}
		for k, v := range map[string]string{"int": "-5", "float": "1.5", "yes": "true", "when": `"Sun, 06 Nov 1994 08:49:37 GMT"`} {
			if got := a.header.Get(k); got != v {
				e.Errorf("property %s: got %s, want %s", k, got, v)
			}
		}
		e.wantHTTP(e.http(http.MethodDelete, a.settleAt(e), "", nil), http.StatusOK)
		e.wantHTTP(e.http(http.MethodPost, queue+"/messages/head?timeout=0", "", nil), http.StatusNoContent)
		e.wantHTTP(e.http(http.MethodDelete, a.settleAt(e), "", nil), http.StatusNotFound)
	})
}

func TestALockOfOneProtocolIsSettledByTheOther(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		e.send(queue, "a", "b", "c", "d")
		r := e.receiver(queue)

		// Locked over AMQP, settled over HTTPS.
		ms := e.take(r, 2)
		at := func(m *azservicebus.ReceivedMessage) string {
			return queue + "/messages/" + url.PathEscape(m.MessageID) + "/" + uuidText(m.LockToken)
		}
		e.wantHTTP(e.http(http.MethodPost, at(ms[0]), "", nil), http.StatusOK)   // renew
		e.wantHTTP(e.http(http.MethodDelete, at(ms[0]), "", nil), http.StatusOK) // complete
		e.wantCode(r.CompleteMessage(e.ctx(), ms[0], nil), azservicebus.CodeLockLost)
		e.wantHTTP(e.http(http.MethodPut, at(ms[1]), "", nil), http.StatusOK) // unlock
		again := e.one(r)
		if string(again.Body) != "b" || again.DeliveryCount != 2 {
			e.Errorf("got %q, delivery %d; want b again", again.Body, again.DeliveryCount)
		}
		e.complete(r, again)

		// Locked over HTTPS, settled over AMQP: with the token alone, as the SDK
		// does for a message whose link is gone.
		for _, want := range []string{"c", "d"} {
			a := e.wantHTTP(e.http(http.MethodPost, queue+"/messages/head?timeout=10", "", nil), http.StatusCreated)
			if a.body != want {
				e.Errorf("got %q, want %q", a.body, want)
			}
			token, _ := a.broker(e)["LockToken"].(string)
			e.manage(queue, "com.microsoft:renew-lock", map[string]any{"lock-tokens": uuids(e, token)})
			e.manage(queue, "com.microsoft:update-disposition", map[string]any{"disposition-status": "completed", "lock-tokens": uuids(e, token)})
			e.wantHTTP(e.http(http.MethodDelete, a.settleAt(e), "", nil), http.StatusNotFound)
		}
		if c := e.runtime(queue); c.TotalMessageCount != 0 {
			e.Errorf("%d messages are left", c.TotalMessageCount)
		}
	})
}

func TestReceiveAndDeleteOverHTTPS(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		e.send(queue, "a")
		a := e.wantHTTP(e.http(http.MethodDelete, queue+"/messages/head?timeout=10", "", nil), http.StatusOK)
		if a.body != "a" || a.broker(e)["LockToken"] != nil {
			e.Errorf("got %q with %v", a.body, a.broker(e))
		}
		e.wantHTTP(e.http(http.MethodDelete, queue+"/messages/head?timeout=0", "", nil), http.StatusNoContent)
	})
}

func TestABatchOverHTTPSIsAllOrNothing(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		kind := http.Header{"Content-Type": {"application/vnd.microsoft.servicebus.json"}}
		bad := e.http(http.MethodPost, queue+"/messages", `[{"Body":"x"},{"Body":"y","BrokerProperties":{"TimeToLive":"soon"}}]`, kind)
		if bad.status != http.StatusBadRequest || !strings.Contains(bad.body, "TimeToLive") {
			e.Errorf("got %d %s, want 400 naming TimeToLive", bad.status, bad.body)
		}
		e.wantHTTP(e.http(http.MethodPost, queue+"/messages",
			`[{"Body":"a","BrokerProperties":{"Label":"L"},"UserProperties":{"n":1}},{"Body":"b"}]`, kind), http.StatusCreated)
		r := e.receiver(queue)
		ms := e.take(r, 2)
		if !slices.Equal(bodies(ms), []string{"a", "b"}) || *ms[0].Subject != "L" || len(ms[0].ApplicationProperties) != 1 {
			e.Errorf("got %q, first %+v", bodies(ms), ms[0])
		}
		e.complete(r, ms...)
		e.nothing(r)
	})
}

func TestALongPollIsWoken(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		got := beside(e, func() answer { return e.http(http.MethodDelete, queue+"/messages/head?timeout=25", "", nil) })
		time.Sleep(silence) // most likely it waits by then; if not, it gets the message all the same
		e.send(queue, "hello")
		if a := <-got; a.body != "hello" {
			e.Errorf("got %d %s, want hello", a.status, a.body)
		}
	})
}

func TestBadBrokerPropertiesAreNamed(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		for _, tt := range []struct{ properties, named string }{
			{`{"TimeToLive":"soon"}`, "TimeToLive"},
			{`{"Label":7}`, "Label"},
			{`{"ScheduledEnqueueTimeUtc":"tomorrow"}`, "ScheduledEnqueueTimeUtc"},
			{`{"MessageId":`, "BrokerProperties"},
			{`[]`, "BrokerProperties"},
			{`{"SessionId":"a","PartitionKey":"b"}`, "PartitionKey"},
		} {
			a := e.http(http.MethodPost, queue+"/messages", "x", http.Header{"BrokerProperties": {tt.properties}})
			if a.status != http.StatusBadRequest || !strings.Contains(a.body, tt.named) {
				e.Errorf("%s: got %d %s, want 400 naming %s", tt.properties, a.status, a.body, tt.named)
			}
		}
		big := e.http(http.MethodPost, queue+"/messages", strings.Repeat("x", 257<<10), nil)
		if big.status != http.StatusForbidden && big.status != http.StatusRequestEntityTooLarge {
			e.Errorf("a message of 257 KiB: got %d %s, want 403 or 413", big.status, big.body)
		}
		if c := e.runtime(queue); c.TotalMessageCount != 0 {
			e.Errorf("%d refused messages are stored", c.TotalMessageCount)
		}
	})
}

func TestTheDeadLetterQueueOverHTTPS(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		e.send(queue, "bad")
		r := e.receiver(queue)
		if err := r.DeadLetterMessage(e.ctx(), e.one(r), &azservicebus.DeadLetterOptions{Reason: new("why")}); err != nil {
			e.Fatal(err)
		}
		a := e.wantHTTP(e.http(http.MethodPost, queue+"/$DeadLetterQueue/messages/head?timeout=10", "", nil), http.StatusCreated)
		if a.body != "bad" || a.header.Get("DeadLetterReason") != `"why"` {
			e.Errorf("got %q, reason %s", a.body, a.header.Get("DeadLetterReason"))
		}
		e.wantHTTP(e.http(http.MethodDelete, a.settleAt(e), "", nil), http.StatusOK)
	})
}

// The last segment that makes a route ends the name.
func TestNamesWithASegmentMessages(t *testing.T) {
	onEachEngine(t, func(e *env) {
		a, first := e.admin(), e.queue(nil)
		second, third := first+"/messages", first+"/Messages/head/x"
		e.create(second, &admin.QueueProperties{AuthorizationRules: []admin.AuthorizationRule{{
			KeyName: new("own"), PrimaryKey: new("own-key"), SecondaryKey: new("other"), AccessRights: []admin.AccessRight{admin.AccessRightSend},
		}}})
		e.create(third, nil)
		for _, queue := range []string{first, second, third} {
			if got, err := a.GetQueue(e.ctx(), queue, nil); err != nil || got == nil || got.QueueName != queue {
				e.Errorf("get %s: %+v, %v", queue, got, err)
			}
			e.wantHTTP(e.http(http.MethodPost, queue+"/messages", "to "+queue, nil), http.StatusCreated)
		}
		for _, queue := range []string{first, second, third} {
			got := e.wantHTTP(e.http(http.MethodPost, queue+"/messages/head?timeout=5", "", nil), http.StatusCreated)
			if got.body != "to "+queue {
				e.Errorf("%s: got %q", queue, got.body)
			}
			_, path, _ := strings.Cut(got.header.Get("Location"), e.gw.host+"/")
			e.wantHTTP(e.http(http.MethodPut, path, "", nil), http.StatusOK)
			r := e.receiver(queue)
			e.complete(r, e.one(r))
		}
		// A token for the second queue has the address of a request to the first.
		token := auth.SignSAS("http://"+e.gw.host+"/"+second, "own", "own-key", time.Now().Add(time.Hour))
		e.wantHTTP(e.httpAs(token, http.MethodPost, first+"/messages", "x", nil), http.StatusUnauthorized)
		e.wantHTTP(e.httpAs(token, http.MethodPost, second+"/messages", "x", nil), http.StatusCreated)
		token = auth.SignSAS("http://"+e.gw.host+"/"+second, devPolicy, devKey, time.Now().Add(time.Hour))
		e.wantHTTP(e.httpAs(token, http.MethodPost, first+"/messages", "x", nil), http.StatusUnauthorized)
		if _, err := a.DeleteQueue(e.ctx(), second, nil); err != nil {
			e.Error(err)
		}
		e.wantHTTP(e.httpAs(token, http.MethodPost, first+"/messages", "x", nil), http.StatusCreated) // now it is that address only
		e.wantHTTP(e.http(http.MethodGet, second, "", nil), http.StatusMethodNotAllowed)
	})
}
