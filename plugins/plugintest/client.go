package plugintest

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/plugins"
	"github.com/crosstown-mq/crosstown/plugins/host"
	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

const callTimeout = 10 * time.Second

// Client sends requests to a plugin as a gateway does.
type Client struct {
	host.Description
	router     *host.Router
	serializer *host.Serializer
}

// InProcess serves a plugin in the test's process.
func InProcess(t testing.TB, p sdk.Plugin) *Client {
	t.Helper()
	ln := bufconn.Listen(1 << 20)
	s := grpc.NewServer(grpc.MaxRecvMsgSize(plugins.MaxFrame), grpc.MaxSendMsgSize(plugins.MaxFrame))
	h := health.NewServer()
	h.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(s, h)
	if err := sdk.Register(s, p); err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(ln) }) // ends with Stop
	t.Cleanup(func() { s.Stop(); serving.Wait() })
	conn, err := grpc.NewClient("passthrough:plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ln.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(plugins.MaxFrame), grpc.MaxCallSendMsgSize(plugins.MaxFrame)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	attached, end, err := host.Attach(t.Context(), host.Options{Name: p.Name, CallTimeout: callTimeout}, conn)
	if err != nil {
		t.Fatalf("cannot run the plugin in process: %v", err)
	}
	t.Cleanup(end)
	return client(t, attached, p.Name)
}

// Compiled builds the program in a package, and launches it with args.
func Compiled(t testing.TB, pkg string, args ...string) *Client {
	t.Helper()
	program := filepath.Join(t.TempDir(), "plugin")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if out, err := exec.Command("go", "build", "-o", program, pkg).CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	return Launched(t, program, args...)
}

// Launched launches a program in any language.
func Launched(t testing.TB, program string, args ...string) *Client {
	t.Helper()
	const name = "plugin"
	h := host.New([]host.Options{{Name: name, Path: program, Args: args, Env: []string{"PATH"}, CallTimeout: callTimeout}},
		slog.New(slog.NewTextHandler(t.Output(), nil)))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = h.Run(ctx) }) // always returns nil
	t.Cleanup(func() { cancel(); running.Wait() })
	launching, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	if err := h.Launched(launching); err != nil {
		t.Fatal(err)
	}
	if s := h.States()[0]; s.Condition != host.Ready {
		t.Fatalf("the plugin is %s: %s", s.Condition, s.Problem)
	}
	return client(t, h, name)
}

func client(t testing.TB, h *host.Host, name string) *Client {
	t.Helper()
	r, err := h.Router(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := h.Serializer(name)
	if err != nil {
		t.Fatal(err)
	}
	return &Client{Description: *h.States()[0].Description, router: r, serializer: s}
}

type Outcome struct {
	Action      string // "pass", "drop", "dead-letter" or "refuse"
	Reason      string
	Description string
	Routes      []string
	Beside      bool
	Properties  map[string]any
}

func (c *Client) Judge(t testing.TB, m *sdk.Message) (Outcome, error) {
	t.Helper()
	outcomes, err := c.JudgeAll(t, m)
	if err != nil {
		return Outcome{}, err
	}
	return outcomes[0], nil
}

// JudgeAll returns a router's verdicts on several messages in one call. Stage, Entity and
// Parameters are those of the first message.
func (c *Client) JudgeAll(t testing.TB, ms ...*sdk.Message) ([]Outcome, error) {
	t.Helper()
	made := make([]*core.Message, len(ms))
	for i, m := range ms {
		made[i] = messageOf(t, m)
	}
	var at core.Stage
	if len(ms) > 0 {
		kinds := map[sdk.Stage]core.StageKind{sdk.Filter: core.StageFilter, sdk.ByTo: core.StageTo}
		at = core.Stage{Kind: kinds[ms[0].Stage], Entity: ms[0].Entity, Parameters: propertiesOf(t, ms[0].Parameters)}
	}
	verdicts, err := c.router.Route(t.Context(), at, made)
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(verdicts))
	for i, v := range verdicts {
		outcomes[i] = Outcome{
			Action: v.Action.String(), Reason: v.Reason, Description: v.Description,
			Routes: v.Routes, Beside: v.Beside, Properties: map[string]any{},
		}
		maps.Insert(outcomes[i].Properties, v.Revise(made[i].Properties).All())
	}
	return outcomes, nil
}

func (c *Client) Decode(t testing.TB, contentType string, payload []byte) (any, error) {
	t.Helper()
	return c.serializer.Decode(t.Context(), contentType, payload)
}

func (c *Client) Encode(t testing.TB, contentType string, v any) ([]byte, error) {
	t.Helper()
	payload, _, err := c.serializer.Encode(t.Context(), contentType, v)
	return payload, err
}

func messageOf(t testing.TB, m *sdk.Message) *core.Message {
	t.Helper()
	out := &core.Message{
		MessageID: core.StringID(m.MessageID), CorrelationID: core.StringID(m.CorrelationID), UserID: m.UserID,
		To: m.To, Subject: m.Subject, ReplyTo: m.ReplyTo, ContentType: m.ContentType, ContentEncoding: m.ContentEncoding,
		SessionID: m.SessionID, ReplyToSessionID: m.ReplyToSessionID, PartitionKey: m.PartitionKey,
		CreationTime: m.CreationTime, AbsoluteExpiryTime: m.AbsoluteExpiryTime, ScheduledEnqueueTime: m.ScheduledEnqueueTime,
		TimeToLive: m.TimeToLive, Durable: value.Opt[bool]{V: m.Durable, Set: m.Durable},
		Properties: propertiesOf(t, m.Properties), Annotations: propertiesOf(t, m.Annotations),
		Body: core.Body{Bytes: m.Body},
	}
	if m.Priority != 0 {
		out.Priority = value.Some(m.Priority)
	}
	return out
}

func propertiesOf(t testing.TB, m map[string]any) core.Properties {
	t.Helper()
	pairs := make([]core.Property, 0, len(m))
	for k, v := range m {
		pairs = append(pairs, core.Property{Key: k, Value: v})
	}
	p, err := core.NewProperties(pairs...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
