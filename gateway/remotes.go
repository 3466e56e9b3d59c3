package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/rungroup"
	"github.com/crosstown-mq/crosstown/gateway/internal/tracing"
)

// remotes are the other brokers of the configuration. Those of the gateway's own
// namespace forward to them.
type remotes struct {
	all   []*remote.Remote
	serve func(context.Context, net.Conn) error // AMQP for namespaces of this gateway; set by run
}

func newRemotes(c *config.Config, log *slog.Logger) (*remotes, error) {
	r := &remotes{}
	for i := range c.Remotes {
		o, err := r.options(c, &c.Remotes[i])
		if err != nil {
			return nil, fmt.Errorf("remote %s: %w", c.Remotes[i].Name, err)
		}
		o.Logger = log
		r.all = append(r.all, remote.New(o))
	}
	return r, nil
}

func (r *remotes) options(c *config.Config, m *config.Remote) (remote.Options, error) {
	p, err := m.Place()
	if err != nil {
		return remote.Options{}, err
	}
	o := remote.Options{
		Name: m.Name, Address: cmp.Or(p.Address, "namespace "+m.Namespace), Host: p.Host, Window: m.Window, Batches: m.TakesBatches(),
		User: p.User, Password: p.Password, Policy: p.Policy, Key: p.Key, Signature: p.Sign,
	}
	for _, from := range m.Pull {
		o.Pulls = append(o.Pulls, remote.Pull(from))
	}
	if m.Namespace != "" {
		o.Policy, o.Key = keyOf(c, m.Namespace)
		o.Dial = r.dialHome
		return o, nil
	}
	o.Dial = func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", p.Address) }
	if !p.Plain {
		o.TLS, err = trusting(m.CA, p.Host)
	}
	return o, err
}

// keyOf is a policy of a configured namespace, the one with the most rights.
func keyOf(c *config.Config, namespace string) (name, key string) {
	most := core.Right(0)
	for _, n := range c.Namespaces {
		for _, p := range n.Policies {
			if n.Name == namespace && p.Rights > most {
				most, name, key = p.Rights, p.Name, p.Key
			}
		}
	}
	return name, key
}

// trusting is TLS with a server of that name, whose certificate one of the file has
// signed, or one whom the system trusts.
func trusting(file, name string) (*tls.Config, error) {
	t := &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}
	if file == "" {
		return t, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t.RootCAs = x509.NewCertPool()
	if !t.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", file)
	}
	return t, nil
}

// dialHome connects to this gateway itself.
func (r *remotes) dialHome(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	go func() { _ = r.serve(context.WithoutCancel(ctx), far) }() // ends with the connection
	return near, nil
}

// byName is the remotes as the broker knows them, traced.
func (r *remotes) byName(traces *tracing.Tracing) map[string]core.Remote {
	all := make(map[string]core.Remote, len(r.all))
	for _, m := range r.all {
		name := m.State().Name
		all[name] = traces.Remote(m, name)
	}
	return all
}

// run keeps the connections to remotes as tasks of the group: serve is the AMQP
// bridge.
func (r *remotes) run(g *rungroup.Group, here *broker.Broker, serve func(context.Context, net.Conn) error) {
	r.serve = serve
	local := remote.Local{Broker: here, Identity: core.Identity{{Policy: "remote", Rights: core.AllRights}}, Forget: here.Forget}
	for _, m := range r.all {
		g.Go("remote "+m.State().Name, func(ctx context.Context) error { return m.Run(ctx, local) })
	}
}

// states tell how the remotes are doing.
func (r *remotes) states() []remote.State {
	all := make([]remote.State, len(r.all))
	for i, m := range r.all {
		all[i] = m.State()
	}
	return all
}

// remotesPath is where remotes are looked at.
const remotesPath = "/$crosstown/remotes"

// remoteDesk answers GET for the remotes' states, to who has Manage on the
// gateway's own namespace.
type remoteDesk struct {
	desk
	remotes *remotes
	exports func(context.Context) ([]broker.Export, error)
}

// remoteState is a remote with what waits for it here.
type remoteState struct {
	remote.State
	Waiting []waiting `json:"waiting"`
}

// waiting is an entity with messages for a remote.
type waiting struct {
	Entity      string    `json:"entity"`
	DeadLetters bool      `json:"deadLetters,omitzero"` // it is these that go there
	To          string    `json:"to"`
	Messages    int64     `json:"messages"`
	Oldest      time.Time `json:"oldest,omitzero"`
}

func (d *remoteDesk) routes(routes map[string]http.Handler) { routes[remotesPath] = d }

// ServeHTTP answers one request.
func (d *remoteDesk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := d.answer(r)
	d.reply(w, r, answer, err)
}

func (d *remoteDesk) answer(r *http.Request) (any, error) {
	if err := d.authorize(r); err != nil {
		return nil, err
	}
	if r.Method != http.MethodGet {
		return nil, core.Refuse(core.NotAllowed, "The remotes can be got.")
	}
	all := []remoteState{}
	if len(d.remotes.all) == 0 {
		return all, nil
	}
	exports, err := d.exports(r.Context())
	if err != nil {
		return nil, err
	}
	for _, s := range d.remotes.states() {
		state := remoteState{s, []waiting{}}
		for _, e := range exports {
			if strings.EqualFold(e.Remote, s.Name) {
				state.Waiting = append(state.Waiting, waiting{e.Entity, e.DeadLetters, e.To, e.Waiting, e.Oldest})
			}
		}
		all = append(all, state)
	}
	return all, nil
}
