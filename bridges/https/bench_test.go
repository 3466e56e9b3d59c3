package https

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// discard is a ResponseWriter that keeps the status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

func benchmarkRequest(b *testing.B, f *fakeBus, r *http.Request, body []byte, want int, before func()) {
	handler := newBridge(f).Handler()
	r.Header.Set("Authorization", "SharedAccessSignature all")
	b.ReportAllocs()
	for b.Loop() {
		before()
		w := &discard{header: http.Header{}}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, r)
		if w.status != want {
			b.Fatalf("got %d, want %d", w.status, want)
		}
	}
}

func BenchmarkSend(b *testing.B) {
	f := newFakeBus("q")
	body := bytes.Repeat([]byte("x"), 1024)
	r := httptest.NewRequest("POST", "/q/messages", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("BrokerProperties", `{"MessageId":"5e0f6c1a","Label":"order","TimeToLive":3600}`)
	r.Header.Set("Priority", `"High"`)
	r.Header.Set("Count", "3")
	benchmarkRequest(b, f, r, body, http.StatusCreated, func() { f.queues["q"].messages = nil })
}

func BenchmarkPeekLock(b *testing.B) {
	f := newFakeBus("q")
	p, err := core.NewProperties(core.Property{Key: "Priority", Value: "High"}, core.Property{Key: "Count", Value: int32(3)},
		core.Property{Key: "When", Value: value.Timestamp(0)})
	if err != nil {
		b.Fatal(err)
	}
	f.put("q", &core.Message{MessageID: core.StringID("5e0f6c1a"), Subject: "order", Properties: p, Body: core.Body{Bytes: make([]byte, 1024)}})
	d := f.queues["q"].messages[0]
	r := httptest.NewRequest("POST", "/q/messages/head?timeout=10", nil)
	benchmarkRequest(b, f, r, nil, http.StatusCreated, func() { d.LockToken = core.LockToken{} })
}

func BenchmarkGetQueue(b *testing.B) {
	f := newFakeBus("q")
	r := httptest.NewRequest("GET", "/q?api-version=2021-05", nil)
	benchmarkRequest(b, f, r, nil, http.StatusOK, func() {})
}
