package sdk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/crosstown-mq/crosstown/plugins"
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
