package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/crosstown-mq/crosstown/plugins"
	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

// unusable is an error that will recur until the program or its configuration changes.
type unusable struct{ error }

func (u unusable) Unwrap() error { return u.error }

// instance is a running plugin. It has answered one request of each kind.
type instance struct {
	opts        Options
	client      *plugin.Client
	process     *process
	conn        *grpc.ClientConn
	endStream   context.CancelFunc
	session     *session
	description *pb.Description
	dir         string // directory of its socket
	closing     sync.Once
}

// launch starts a process and tests it. After a failure, it removes all that it created.
func launch(ctx context.Context, o Options, log *slog.Logger) (_ *instance, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.StartTimeout, fmt.Errorf("the plugin was not ready within %v", o.StartTimeout))
	defer cancel()
	path, err := program(o)
	if err != nil {
		return nil, unusable{err}
	}
	out := newOutput(log)
	i := &instance{opts: o, process: newProcess(out)}
	if i.dir, err = os.MkdirTemp("", "crosstown-plugin-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			i.close(0)
		}
	}()
	i.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  plugin.HandshakeConfig{MagicCookieKey: plugins.CookieKey, MagicCookieValue: plugins.CookieValue},
		VersionedPlugins: map[int]plugin.PluginSet{plugins.Contract: {"plugin": connection{}}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		RunnerFunc: func(_ hclog.Logger, handshake *exec.Cmd, _ string) (runner.Runner, error) {
			cmd := exec.Command(path, o.Args...)
			cmd.Dir, cmd.Env = o.Dir, append(environment(o.Env), handshake.Env...)
			i.process.cmd = cmd
			return i.process, nil
		},
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: i.dir},
		StartTimeout:     2 * o.StartTimeout, // ctx ends earlier, with a clearer error
		SkipHostEnv:      true,
		SyncStdout:       out.stream(),
		SyncStderr:       out.stream(),
		Logger:           hclog.NewNullLogger(),
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(plugins.MaxFrame), grpc.MaxCallSendMsgSize(plugins.MaxFrame)),
			grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(4 * window),
		},
	})
	// go-plugin's client takes no context. If ctx ends, kill the process, which ends the client.
	defer context.AfterFunc(ctx, func() { _ = i.process.Kill(ctx) })()
	if err := i.connect(ctx); err != nil {
		return nil, i.explain(ctx, err, out)
	}
	return i, nil
}

const window = 1 << 20 // bytes that a stream may send ahead of the reader

func (i *instance) connect(ctx context.Context) error {
	protocol, err := i.client.Client()
	if err != nil {
		return err
	}
	dispensed, err := protocol.Dispense("plugin")
	if err != nil {
		return err
	}
	i.conn = dispensed.(*grpc.ClientConn)
	return i.greet(ctx)
}

// greet checks the plugin with one request of each kind.
func (i *instance) greet(ctx context.Context) (err error) {
	asked := pb.NewPluginClient(i.conn)
	if i.description, err = asked.Describe(ctx, &pb.DescribeRequest{Gateway: gatewayVersion()}); err != nil {
		return fmt.Errorf("cannot get the plugin's description: %w", err)
	}
	if err := usable(i.description); err != nil {
		return err
	}
	ofStream, end := context.WithCancel(context.WithoutCancel(ctx))
	i.endStream = end
	s, err := i.conn.NewStream(ofStream, &pb.Plugin_ServiceDesc.Streams[0], pb.Plugin_Work_FullMethodName, grpc.ForceCodecV2(codec{}))
	if err != nil {
		return fmt.Errorf("cannot open the stream to the plugin: %w", err)
	}
	i.session = newSession(s, i.opts)
	return i.check(ctx)
}

func gatewayVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}

func (i *instance) check(ctx context.Context) error {
	health, err := grpc_health_v1.NewHealthClient(i.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: plugin.GRPCServiceName})
	if err != nil {
		return fmt.Errorf("the health check of the plugin failed: %w", err)
	}
	if health.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("the plugin failed the health check: it reports the status %v", health.Status)
	}
	if _, err := i.session.ask(ctx, &pb.Request{}, 0); err != nil {
		if errors.Is(err, errNotTaken) {
			err = i.session.cause()
		}
		return fmt.Errorf("the plugin did not answer an empty request: %w", err)
	}
	return nil
}

func usable(d *pb.Description) error {
	switch {
	case !slices.Contains(d.Contracts, plugins.Contract):
		return unusable{fmt.Errorf("the plugin supports the contract versions %v, but this gateway requires %d: build the plugin for that version", d.Contracts, plugins.Contract)}
	case d.Router == nil && d.Serializer == nil:
		return unusable{errors.New("the plugin describes itself as neither a router nor a serializer: it must be one of them or both")}
	case d.Serializer != nil && len(d.Serializer.ContentTypes) == 0:
		return unusable{errors.New("the plugin is a serializer without content types: it must name some")}
	}
	return nil
}

// explain replaces go-plugin's error by a clearer one if the plugin is at fault.
func (i *instance) explain(ctx context.Context, err error, out *output) error {
	if isUnusable(err) {
		return err
	}
	if !i.process.started() {
		return unusable{err}
	}
	said := strings.Split(i.process.firstLine(), "|")
	if len(said) >= 2 && said[0] == "1" && said[1] != fmt.Sprint(plugins.Contract) {
		return unusable{fmt.Errorf("the plugin uses contract version %.20s, but this gateway requires %d: build the plugin for that version", said[1], plugins.Contract)}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if said[0] != "" && (len(said) < 5 || said[4] != string(plugin.ProtocolGRPC)) {
		return unusable{fmt.Errorf("the program's first line is %.100q instead of 1|%d|unix|PATH|grpc: is the program a Crosstown plugin?", strings.Join(said, "|"), plugins.Contract)}
	}
	select {
	case <-i.process.exited:
		err = fmt.Errorf("the plugin ended before it was ready (%s)", i.process.ended)
		if last := out.last(); last != "" {
			err = fmt.Errorf("%w, after writing: %s", err, last)
		}
	case <-time.After(100 * time.Millisecond): // the process may be about to end
	}
	return err
}

func isUnusable(err error) bool {
	_, ok := errors.AsType[unusable](err)
	return ok
}

func program(o Options) (string, error) {
	path, err := exec.LookPath(o.Path)
	if err != nil {
		return "", err
	}
	if o.SHA256 == "" {
		return path, nil
	}
	want, err := hex.DecodeString(o.SHA256)
	if err != nil || len(want) != sha256.Size {
		return "", fmt.Errorf("%q is not an SHA-256 checksum: write 64 hexadecimal digits", o.SHA256)
	}
	if ok, err := (&plugin.SecureConfig{Checksum: want, Hash: sha256.New()}).Check(path); err != nil {
		return "", err
	} else if !ok {
		return "", fmt.Errorf("the SHA-256 checksum of %s differs from the configured checksum, %s: configure the checksum of this file, or restore the file", path, o.SHA256)
	}
	return path, nil
}

func environment(env []string) []string {
	out := make([]string, 0, len(env))
	for _, e := range env {
		if !strings.Contains(e, "=") {
			v, ok := os.LookupEnv(e)
			if !ok {
				continue
			}
			e += "=" + v
		}
		out = append(out, e)
	}
	return out
}

func (i *instance) close(grace time.Duration) {
	i.closing.Do(func() {
		if i.endStream != nil {
			i.endStream()
		}
		i.process.stop(grace)
		if i.client != nil {
			i.client.Kill()
		}
		_ = os.RemoveAll(i.dir)
	})
}

func (i *instance) retire(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, i.opts.DrainTimeout)
	defer cancel()
	i.session.drain(ctx)
	i.close(killGrace)
}

type connection struct{ plugin.NetRPCUnsupportedPlugin }

// GRPCServer fails, because package host does not serve plugins.
func (connection) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("package host cannot serve a plugin: it only calls plugins")
}

func (connection) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}
