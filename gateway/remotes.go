package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"

	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/namespaces"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/rungroup"
	"github.com/crosstown-mq/crosstown/gateway/internal/tracing"
)

type remotes struct {
	all       []admin.Remote                        // remotes of all namespaces, in the order of the configuration
	serve     func(context.Context, net.Conn) error // serves AMQP for remotes that are namespaces of this gateway; set by run
	directory *namespaces.Directory                 // the namespaces of this gateway; set by run
}

func newRemotes(c *config.Config, log *slog.Logger) (*remotes, error) {
	r := &remotes{}
	for _, n := range append([]config.Namespace{{Name: c.Namespace, Contents: c.Contents}}, c.Namespaces...) {
		for i := range n.Remotes {
			o, err := r.options(&n.Remotes[i])
			if err != nil {
				return nil, fmt.Errorf("cannot set up the remote %s of the namespace %s: %w", n.Remotes[i].Name, n.Name, err)
			}
			o.Logger = logOf(c, n.Name, log)
			r.all = append(r.all, admin.Remote{Remote: remote.New(o), Namespace: n.Name})
		}
	}
	return r, nil
}

func (r *remotes) options(m *config.Remote) (remote.Options, error) {
	o, plain, err := m.Options()
	if err != nil {
		return o, err
	}
	if m.Namespace != "" {
		o.Address, o.Dial = "namespace "+m.Namespace, r.dialHome
		o.Access = func(ctx context.Context) (policy, key string, err error) { return r.keyOf(ctx, m.Namespace) }
		return o, nil
	}
	o.Dial = func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", o.Address) }
	if !plain {
		o.TLS, err = trusting(m.CA, o.Host)
	}
	return o, err
}

func (r *remotes) keyOf(ctx context.Context, namespace string) (policy, key string, err error) {
	n, err := r.directory.Describe(ctx, namespace)
	most := core.Right(0)
	for _, p := range n.Policies {
		if p.PrimaryKey != "" && p.Rights > most {
			most, policy, key = p.Rights, p.Name, p.PrimaryKey
		}
	}
	return policy, key, err
}

// file has the certificates of trusted authorities in PEM; "" means those of the system.
func trusting(file, name string) (*tls.Config, error) {
	t := &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}
	if file == "" {
		return t, nil
	}
	t.RootCAs = x509.NewCertPool()
	return t, config.AddAuthorities(t.RootCAs, file)
}

func (r *remotes) dialHome(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	go func() { _ = r.serve(context.WithoutCancel(ctx), far) }() // serve ends with the connection
	return near, nil
}

func (r *remotes) of(namespace string) (all []admin.Remote) {
	for _, m := range r.all {
		if m.Namespace == namespace {
			all = append(all, m)
		}
	}
	return all
}

func (r *remotes) byName(namespace string, traces *tracing.Tracing) map[string]core.Remote {
	all := map[string]core.Remote{}
	for _, m := range r.of(namespace) {
		name := m.State().Name
		all[name] = traces.Remote(m, name)
	}
	return all
}

func (r *remotes) statesOf(namespace string) func() []remote.State {
	all := r.of(namespace)
	if len(all) == 0 {
		return nil
	}
	return func() []remote.State {
		states := make([]remote.State, len(all))
		for i, m := range all {
			states[i] = m.State()
		}
		return states
	}
}

func (r *remotes) run(g *rungroup.Group, t *namespaceServer, d *namespaces.Directory, serve func(context.Context, net.Conn) error) {
	r.serve, r.directory = serve, d
	for _, m := range r.all {
		here := t.of(m.Namespace).Broker
		local := remote.Local{Broker: here, Identity: core.Identity{{Policy: "remote", Rights: core.AllRights}}, Memory: t.pools.Budget, ForwardedTo: here.ForwardedTo, Forget: here.Forget}
		g.Go("remote "+m.State().Name+" of "+m.Namespace, func(ctx context.Context) error { return m.Run(ctx, local) })
	}
}
