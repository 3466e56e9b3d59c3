package webhooks

import (
	"bytes"
	"context"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/fair"
	memstore "github.com/crosstown-mq/crosstown/core/store/memory"
)

var root = core.Identity{{Policy: "root", Rights: core.AllRights}}

// newBroker runs a broker with a queue that detects duplicates until the test ends.
func newBroker(t *testing.T) *broker.Broker {
	t.Helper()
	b := broker.New(memstore.New(memstore.Options{}), broker.Options{Namespace: "ns"})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := b.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	s := core.DefaultSettings(core.Queue)
	s.RequiresDuplicateDetection = true
	if _, err := b.CreateEntity(t.Context(), root, core.Queue, "q", s, nil); err != nil {
		t.Fatal(err)
	}
	return b
}

// The examples of the senders' own documents.
func TestSignaturesOfTheSendersDocuments(t *testing.T) {
	t.Parallel()
	r := func(headers ...string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return r
	}
	key, err := Standard.Key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	const id, body, signature = "msg_p5jXN8AQM9LWM0D4loKWxJek", `{"test": 2432232314}`, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	at := time.Unix(1614265330, 0)
	if got := Sign(key, id, at, []byte(body)); got != signature {
		t.Errorf("Standard Webhooks: got %s, want %s", got, signature)
	}
	if err := Standard.verify(r("webhook-id", id, "webhook-timestamp", "1614265330", "webhook-signature", "v1a,x v1,AAAA "+signature), []byte(body), [][]byte{key}, at, time.Minute); err != nil {
		t.Errorf("Standard Webhooks: %v", err)
	}
	const github = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	if err := GitHub.verify(r("X-Hub-Signature-256", github), []byte("Hello, World!"), [][]byte{[]byte("It's a Secret to Everybody")}, at, 0); err != nil {
		t.Errorf("GitHub: %v", err)
	}
}

// sign signs a request as a scheme has it.
func sign(s Scheme, r *http.Request, key []byte, at time.Time, body string) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	switch s {
	case URL:
		r.URL.RawQuery = url.Values{"secret": {string(key)}}.Encode()
	case GitHub:
		r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac(key, body)))
	case Stripe:
		r.Header.Set("Stripe-Signature", "t="+stamp+",v1="+strings.Repeat("00", 32)+",v1="+hex.EncodeToString(mac(key, stamp, ".", body)))
	case Standard:
		r.Header.Set("webhook-id", "evt_1")
		r.Header.Set("webhook-timestamp", stamp)
		r.Header.Set("webhook-signature", Sign(key, "evt_1", at, []byte(body)))
	}
}

func TestAHookStoresWhatItsSenderHasSigned(t *testing.T) {
	t.Parallel()
	const body, secret, old = `{"id":"evt_1","total":12}`, "a-secret-of-the-sender", "a-secret-of-yesterday"
	now := time.Unix(1_700_000_000, 0)
	for _, scheme := range []Scheme{URL, GitHub, Stripe, Standard} {
		t.Run(string(scheme), func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			var lines bytes.Buffer
			hook := Hook{Name: "h", Namespace: "ns", Entity: "q", Scheme: scheme, Keys: [][]byte{[]byte(old), []byte(secret)}, Tolerance: time.Minute, Headers: []string{"X-Event", "X-Absent"}}
			if scheme == URL {
				hook.IDHeader = "X-Delivery"
			}
			gone := hook
			gone.Name, gone.Entity = "gone", "no-such-queue"
			in := NewInbound(Options{Broker: b, Hooks: []Hook{hook, gone}, Budget: fair.New(0, nil, nil), Logger: slog.New(slog.NewTextHandler(&lines, nil)), Now: func() time.Time { return now }})
			call := func(change func(*http.Request), key string, at time.Time, signed, sent string) *httptest.ResponseRecorder {
				r := httptest.NewRequest(http.MethodPost, Path+"H", strings.NewReader(sent))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("X-Event", "paid")
				r.Header.Set("X-Delivery", "evt_1")
				r.Header.Set("X-GitHub-Delivery", "evt_1")
				sign(scheme, r, []byte(key), at, signed)
				if change != nil {
					change(r)
				}
				w := httptest.NewRecorder()
				in.ServeHTTP(w, r)
				return w
			}
			for name, w := range map[string]*httptest.ResponseRecorder{
				"another secret": call(nil, "a-secret-that-is-another", now, body, body),
				"no secret":      call(func(r *http.Request) { r.URL.RawQuery, r.Header = "", http.Header{} }, secret, now, body, body),
				"another method": call(func(r *http.Request) { r.Method = http.MethodGet }, secret, now, body, body),
				"another name":   call(func(r *http.Request) { r.URL.Path = Path + "other" }, secret, now, body, body),
				"a lost entity, to a stranger": call(func(r *http.Request) {
					r.URL.Path, r.URL.RawQuery, r.Header = Path+"gone", "", http.Header{}
				}, secret, now, body, body),
			} {
				if w.Code < 401 || w.Code > 405 || w.Header().Get("Connection") != "close" || strings.Contains(w.Body.String(), "no-such-queue") {
					t.Errorf("%s: got %d %s %s", name, w.Code, w.Header(), w.Body)
				}
			}
			if scheme != URL {
				if w := call(nil, secret, now, body, body+" "); w.Code != http.StatusUnauthorized {
					t.Errorf("another body: got %d", w.Code)
				}
			}
			if scheme == Stripe || scheme == Standard {
				for _, off := range []time.Duration{-61 * time.Second, 61 * time.Second} {
					if w := call(nil, secret, now.Add(off), body, body); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "signing time") {
						t.Errorf("signed at %v: got %d %s", off, w.Code, w.Body)
					}
				}
			}
			if w := call(nil, secret, now, body, strings.Repeat("x", core.DefaultMessageSizeKB<<10+1)); w.Code != http.StatusRequestEntityTooLarge {
				t.Errorf("a large body: got %d %s", w.Code, w.Body)
			}
			if ds, err := b.Peek(t.Context(), root, core.At("q"), nil, 0, 10); err != nil || len(ds) != 0 {
				t.Fatalf("refused requests have stored %d messages, %v", len(ds), err)
			}
			if w := call(func(r *http.Request) { r.URL.Path = Path + "gone" }, secret, now, body, body); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
				t.Errorf("a lost entity: got %d %s", w.Code, w.Body)
			}
			for _, key := range []string{old, secret, secret} { // once, because the delivery's id is the same
				if w := call(nil, key, now.Add(30*time.Second), body, body); w.Code != http.StatusAccepted {
					t.Errorf("got %d %s, want 202", w.Code, w.Body)
				}
			}
			ds, err := b.Peek(t.Context(), root, core.At("q"), nil, 0, 10)
			if err != nil || len(ds) != 1 {
				t.Fatalf("got %d messages, %v, want 1", len(ds), err)
			}
			m := ds[0]
			event, _ := m.Properties.Get("X-Event")
			if string(m.Body.Bytes) != body || m.ContentType != "application/json" || m.MessageID.String() != "evt_1" || event != "paid" || m.Properties.Len() != 1 {
				t.Errorf("got %q, %q, id %s, X-Event %v, %d properties", m.Body.Bytes, m.ContentType, m.MessageID, event, m.Properties.Len())
			}
			if strings.Contains(lines.String(), "a-secret") || !strings.Contains(lines.String(), "hook=H") {
				t.Errorf("the log must name the hook and no secret:\n%s", &lines)
			}
		})
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("t=1,v1=00", "sha256=00", "id", "1", "v1,AAAA", "body")
	f.Fuzz(func(t *testing.T, stripe, github, id, at, standard, body string) {
		r := &http.Request{URL: &url.URL{}, Header: http.Header{
			"Stripe-Signature": {stripe}, "X-Hub-Signature-256": {github}, "Webhook-Id": {id}, "Webhook-Timestamp": {at}, "Webhook-Signature": {standard},
		}}
		for _, s := range []Scheme{URL, GitHub, Stripe, Standard} {
			key := make([]byte, 32)
			copy(key, "a key that no request was signed with")
			if s.verify(r, []byte(body), [][]byte{key}, time.Unix(1, 0), time.Hour) == nil {
				t.Errorf("%s: accepted without the key", s)
			}
		}
	})
}
