package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/crosstown-mq/crosstown/plugins"
	"github.com/crosstown-mq/crosstown/plugins/internal/typed"
	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

// gcPercent applies unless GOGC is set. The heap of a plugin is small: with the default, the
// garbage collector would use a tenth of the CPU.
const gcPercent = 400

// Serve serves the gateway that has started the program, and does not return. A plugin's main
// function needs nothing else.
func Serve(p Plugin) {
	if err := p.validate(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if os.Getenv(plugins.CookieKey) != plugins.CookieValue {
		_, _ = fmt.Fprintf(os.Stderr, "This is the Crosstown plugin %s. A gateway runs the plugin. To try it:  crosstown plugin check %s\n", p.Name, os.Args[0])
		os.Exit(2)
	}
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{MagicCookieKey: plugins.CookieKey, MagicCookieValue: plugins.CookieValue},
		VersionedPlugins: map[int]plugin.PluginSet{
			plugins.Contract: {"plugin": &registration{p: p}},
		},
		GRPCServer: func(o []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(o, grpc.MaxRecvMsgSize(plugins.MaxFrame), grpc.MaxSendMsgSize(plugins.MaxFrame))...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
	})
	os.Exit(0)
}

type registration struct {
	plugin.NetRPCUnsupportedPlugin
	p Plugin
}

func (r *registration) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	return Register(s, r.p)
}

// GRPCClient returns an error, because package sdk only serves plugins.
func (r *registration) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("package sdk cannot call a plugin: use package host")
}

// maxFrames limits the unanswered frames of a stream. The gateway sends fewer.
const maxFrames = 64

type worker struct {
	pb.UnimplementedPluginServer
	p Plugin
}

// Register adds a plugin to the gRPC server of a program that has one. Other programs call Serve.
func Register(s grpc.ServiceRegistrar, p Plugin) error {
	if err := p.validate(); err != nil {
		return err
	}
	pb.RegisterPluginServer(s, &worker{p: p})
	return nil
}

func (w *worker) Describe(context.Context, *pb.DescribeRequest) (*pb.Description, error) {
	d := &pb.Description{Name: w.p.Name, Version: w.p.Version, Contracts: []uint32{plugins.Contract}}
	if w.p.OnSend != nil {
		d.Router = &pb.RouterDescription{NeedsBody: w.p.NeedsBody}
	}
	if w.p.Decode != nil || w.p.Encode != nil {
		d.Serializer = &pb.SerializerDescription{ContentTypes: w.p.ContentTypes}
	}
	return d, nil
}

// patience is how long an answer waits for others of its frame.
const patience = 2 * time.Millisecond

func (w *worker) Work(stream grpc.BidiStreamingServer[pb.Requests, pb.Responses]) error {
	var (
		frames  errgroup.Group
		sending sync.Mutex
	)
	frames.SetLimit(maxFrames)
	defer func() { _ = frames.Wait() }() // the functions return no errors
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		frames.Go(func() error {
			w.respondAll(stream.Context(), in.Requests, func(out []*pb.Response) {
				sending.Lock()
				defer sending.Unlock()
				_ = stream.Send(&pb.Responses{Responses: out}) // ignore the error: the stream has ended, and Recv reports this
			})
			return nil
		})
	}
}

// respondAll answers the requests of a frame, in one goroutine. If a request takes longer than
// patience, respondAll sends the answers so far, and starts another goroutine for the rest.
func (w *worker) respondAll(ctx context.Context, requests []*pb.Request, send func([]*pb.Response)) {
	if len(requests) == 1 {
		send([]*pb.Response{w.respond(ctx, requests[0])})
		return
	}
	var (
		next    atomic.Int64
		done    = make(chan *pb.Response, len(requests))
		respond = func() {
			for i := next.Add(1); int(i) <= len(requests); i = next.Add(1) {
				done <- w.respond(ctx, requests[i-1])
			}
		}
		out    []*pb.Response
		waited = time.NewTicker(patience)
	)
	defer waited.Stop()
	go respond()
	for range requests {
		var a *pb.Response
		for a == nil {
			select {
			case a = <-done:
			case <-waited.C:
				if len(out) > 0 {
					send(out)
					out = nil
				}
				if int(next.Load()) < len(requests) {
					go respond()
				}
			}
		}
		out = append(out, a)
	}
	send(out)
}

// respond answers a request. A panic becomes a failure.
func (w *worker) respond(ctx context.Context, r *pb.Request) (out *pb.Response) {
	defer func() {
		if p := recover(); p != nil {
			slog.Error("panic", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			out = failure(r.Id, pb.Failure_UNAVAILABLE, fmt.Sprintf("panic: %v", p))
		}
	}()
	if r.TimeoutMs > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.TimeoutMs)*time.Millisecond)
		defer cancel()
	}
	switch q := r.Question.(type) {
	case *pb.Request_Route:
		return w.route(ctx, r.Id, q.Route)
	case *pb.Request_Decode:
		return w.decode(ctx, r.Id, q.Decode)
	case *pb.Request_Encode:
		return w.encode(ctx, r.Id, q.Encode)
	case nil:
		return &pb.Response{Id: r.Id}
	default:
		return failure(r.Id, pb.Failure_UNSUPPORTED, "this version of the SDK does not know this kind of request")
	}
}

func failure(id uint64, kind pb.Failure_Kind, text string) *pb.Response {
	return &pb.Response{Id: id, Answer: &pb.Response_Failure{Failure: &pb.Failure{Kind: kind, Text: typed.Text(text)}}}
}

func (w *worker) decode(ctx context.Context, id uint64, q *pb.Decode) *pb.Response {
	if w.p.Decode == nil {
		return failure(id, pb.Failure_UNSUPPORTED, "the plugin has no Decode function")
	}
	v, err := w.p.Decode(ctx, q.ContentType, q.Payload)
	if err != nil {
		return failure(id, kindOf(err), err.Error())
	}
	made, err := typed.From(natural(v))
	if err != nil {
		return failure(id, pb.Failure_UNAVAILABLE, err.Error())
	}
	return &pb.Response{Id: id, Answer: &pb.Response_Decoded{Decoded: &pb.Decoded{Value: made}}}
}

func (w *worker) encode(ctx context.Context, id uint64, q *pb.Encode) *pb.Response {
	if w.p.Encode == nil {
		return failure(id, pb.Failure_UNSUPPORTED, "the plugin has no Encode function")
	}
	v, err := typed.Of(q.Value)
	if err != nil {
		return failure(id, pb.Failure_INVALID, err.Error())
	}
	payload, err := w.p.Encode(ctx, q.ContentType, v)
	if err != nil {
		return failure(id, kindOf(err), err.Error())
	}
	return &pb.Response{Id: id, Answer: &pb.Response_Encoded{Encoded: &pb.Encoded{Payload: payload}}}
}

func kindOf(err error) pb.Failure_Kind {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return pb.Failure_UNAVAILABLE
	}
	return pb.Failure_INVALID
}

var stages = map[pb.Route_Stage]Stage{pb.Route_INGRESS: Ingress, pb.Route_FILTER: Filter, pb.Route_TO: ByTo}

func (w *worker) route(ctx context.Context, id uint64, q *pb.Route) *pb.Response {
	if w.p.OnSend == nil {
		return failure(id, pb.Failure_UNSUPPORTED, "the plugin has no OnSend function")
	}
	parameters, err := mapOf(q.Parameters)
	if err != nil {
		return failure(id, pb.Failure_INVALID, err.Error())
	}
	at := &Message{Stage: stages[q.Stage], Entity: q.Entity, Parameters: parameters}
	verdicts := make([]*pb.Verdict, len(q.Messages))
	if err := w.fillVerdicts(ctx, at, q.Messages, verdicts); err != nil {
		return failure(id, pb.Failure_UNAVAILABLE, err.Error())
	}
	return &pb.Response{Id: id, Answer: &pb.Response_Routed{Routed: &pb.Routed{Verdicts: verdicts}}}
}

func (w *worker) fillVerdicts(ctx context.Context, at *Message, ms []*pb.Message, verdicts []*pb.Verdict) error {
	if w.p.Concurrency <= 1 || len(ms) == 1 {
		for i, m := range ms {
			var err error
			if verdicts[i], err = w.verdict(ctx, at, m); err != nil {
				return err
			}
		}
		return nil
	}
	var all errgroup.Group
	all.SetLimit(w.p.Concurrency)
	for i, m := range ms {
		all.Go(func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					slog.Error("panic", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
					err = fmt.Errorf("panic: %v", p)
				}
			}()
			verdicts[i], err = w.verdict(ctx, at, m)
			return err
		})
	}
	return all.Wait()
}

func (w *worker) verdict(ctx context.Context, at *Message, m *pb.Message) (*pb.Verdict, error) {
	given, came, err := messageOf(at, m)
	if err != nil {
		return nil, err
	}
	v, err := w.p.OnSend(ctx, given)
	if err != nil {
		return nil, err
	}
	out := &pb.Verdict{
		Action: v.action, Reason: typed.Text(v.reason), Description: typed.Text(v.description), Beside: v.beside,
	}
	for _, entity := range v.routes {
		out.Routes = append(out.Routes, typed.Text(entity))
	}
	return out, changes(out, m.Properties, came, given.Properties)
}
