package tracingtest

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	service "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

type Collector struct {
	GRPC, HTTP string // its URLs

	service.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []Span
}

func NewCollector(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}
	rpc, web := listen(), listen()
	c.GRPC, c.HTTP = "http://"+rpc.Addr().String(), "http://"+web.Addr().String()
	gs := grpc.NewServer()
	service.RegisterTraceServiceServer(gs, c)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", c.post)
	hs := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = gs.Serve(rpc) }) // until Stop
	serving.Go(func() { _ = hs.Serve(web) })
	t.Cleanup(func() {
		gs.Stop()
		_ = hs.Close()
		serving.Wait()
	})
	return c
}

func (c *Collector) Export(_ context.Context, q *service.ExportTraceServiceRequest) (*service.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range q.GetResourceSpans() {
		for _, scope := range r.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, read(s, r.GetResource().GetAttributes()))
			}
		}
	}
	return &service.ExportTraceServiceResponse{}, nil
}

func (c *Collector) post(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	encoded, err := io.ReadAll(body)
	var q service.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(encoded, &q)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = c.Export(r.Context(), &q) // Export never fails
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

func read(s *otlp.Span, resource []*common.KeyValue) Span {
	span := Span{
		Name: s.GetName(), Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		Attributes: attributes(s.GetAttributes()), Resource: attributes(resource),
		Began: time.Unix(0, int64(s.GetStartTimeUnixNano())), Ended: time.Unix(0, int64(s.GetEndTimeUnixNano())),
	}
	for _, l := range s.GetLinks() {
		span.Links = append(span.Links, hex.EncodeToString(l.GetSpanId()))
	}
	if s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR {
		span.Error = s.GetStatus().GetMessage()
	}
	return span
}

func attributes(all []*common.KeyValue) map[string]any {
	m := make(map[string]any, len(all))
	for _, a := range all {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			m[a.GetKey()] = v.StringValue
		case *common.AnyValue_BoolValue:
			m[a.GetKey()] = v.BoolValue
		case *common.AnyValue_IntValue:
			m[a.GetKey()] = v.IntValue
		case *common.AnyValue_DoubleValue:
			m[a.GetKey()] = v.DoubleValue
		}
	}
	return m
}
