package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/bridges/https"
	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/contexts"
	"github.com/crosstown-mq/crosstown/gateway/internal/devca"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
)

const connectionVariable = "CROSSTOWN_CONNECTION_STRING"

// localConnection is how a gateway on this machine is reached by default.
const localConnection = "Endpoint=sb://localhost:5672;SharedAccessKeyName=" + config.DevPolicy + ";SharedAccessKey=" + config.DevKey + ";UseDevelopmentEmulator=true"

// target is a namespace that a connection string names.
type target struct {
	auth.ConnectionString
	text   string // as it was given
	origin string // where text is from, unless it is from the command line or the default
	ca     string // PEM file of an authority to trust, "": none
	tls    *tls.Config
}

func (o *common) target() (*target, error) {
	t, err := o.chosen()
	if err != nil {
		return nil, err
	}
	if err := o.resolve(t); err != nil {
		if t.origin != "" {
			err = usagef("%s: %w", t.origin, err)
		}
		return nil, err
	}
	return t, nil
}

// chosen is the target that flags, environment and contexts choose, in this order.
func (o *common) chosen() (*target, error) {
	named, by := o.context, "--context"
	switch {
	case o.connectionString != "":
		return &target{text: o.connectionString, ca: o.ca}, nil
	case named != "":
	default:
		if text := config.Variable(o.environ, connectionVariable); text != "" {
			return &target{text: text, origin: connectionVariable, ca: o.ca}, nil
		}
		named, by = config.Variable(o.environ, contexts.Variable), contexts.Variable
	}
	file, err := contexts.Load(contexts.Path(o.environ))
	if err != nil {
		return nil, err
	}
	if named == "" {
		if named, by = file.Current, "the current context"; named == "" {
			return &target{text: localConnection, ca: o.ca}, nil
		}
	}
	held, err := file.Get(named)
	if err != nil {
		return nil, usagef("%s: %w", by, err)
	}
	return &target{text: held.ConnectionString, origin: fmt.Sprintf("context %s of %s", named, file.Path), ca: cmp.Or(o.ca, held.CA)}, nil
}

// other is the target of a flag that names a second namespace: a connection string, or the name of a context.
func (o *common) other(named string) (*target, error) {
	second := &common{environ: o.environ, ca: o.ca, data: o.data}
	if strings.Contains(named, "=") { // every connection string has one, and no context
		second.connectionString = named
	} else {
		second.context = named
	}
	return second.target()
}

// resolve reads the connection string and the authorities of a target.
func (o *common) resolve(t *target) (err error) {
	if t.ConnectionString, err = auth.ParseConnectionString(t.text); err != nil {
		return usagef("%w: write Endpoint=sb://HOST[:PORT];SharedAccessKeyName=NAME;SharedAccessKey=KEY, with ;UseDevelopmentEmulator=true for plain text", err)
	}
	name := t.Host
	if host, _, err := net.SplitHostPort(t.Host); err == nil {
		name = host
	}
	roots, err := o.roots(t.ca, listen.IsLoopback(net.JoinHostPort(name, "0")))
	if err != nil {
		return err
	}
	// Without a name go-amqp would verify the certificate against HOST:PORT.
	t.tls = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: name}
	return nil
}

// checkConnection reports what is wrong with a connection string, or with the file of an authority, "": none.
func checkConnection(connectionString, ca string) error {
	return new(common).resolve(&target{text: connectionString, ca: ca})
}

// roots are the system's authorities, that of a file and, for this machine, the
// development CA.
func (o *common) roots(ca string, local bool) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, usagef("--ca: %w", err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, usagef("--ca: %s holds no certificate in PEM", ca)
		}
	}
	if local && o.data != "" {
		pem, err := os.ReadFile(devca.Path(o.data))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("development CA: %w", err)
		}
		pool.AppendCertsFromPEM(pem)
	}
	return pool, nil
}

// client connects for messages. It makes one attempt: at a terminal an error is better than a wait.
func (t *target) client() (*azservicebus.Client, error) {
	return azservicebus.NewClientFromConnectionString(t.text, &azservicebus.ClientOptions{
		ApplicationID: "crosstown",
		TLSConfig:     t.tls,
		RetryOptions:  azservicebus.RetryOptions{MaxRetries: -1},
	})
}

// link connects for messages as they are encoded: the SDK does not know all types.
func (t *target) link(ctx context.Context, entity string) (*remote.Client, error) {
	e, err := (&config.Remote{ConnectionString: t.text}).Endpoint()
	if err != nil {
		return nil, err
	}
	o := remote.Options{
		Name: e.Host, Address: e.Address, Host: e.Host, Batches: true,
		Policy: e.Policy, Key: e.Key, Signature: e.Sign, Entity: entity,
		Dial: func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", e.Address) },
	}
	if !e.Plain {
		o.TLS = t.tls
	}
	return remote.Connect(ctx, o)
}

// admin connects for management.
func (t *target) admin() (*admin.Client, error) {
	return admin.NewClientFromConnectionString(t.text, &admin.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: &transport{
			client: &http.Client{Transport: &http.Transport{TLSClientConfig: t.tls, Proxy: http.ProxyFromEnvironment}},
			plain:  t.Emulator,
		},
		Retry: policy.RetryOptions{MaxRetries: -1},
	}})
}

// management is a client of the target's management API.
func (t *target) management(foreign func(entity, property, value string)) *https.AdminClient {
	origin := "https://" + t.Host
	if t.Emulator {
		origin = "http://" + t.Host
	}
	return &https.AdminClient{
		Origin:    origin,
		HTTP:      &http.Client{Transport: &http.Transport{TLSClientConfig: t.tls, Proxy: http.ProxyFromEnvironment}, Timeout: inquiryTimeout},
		Authorize: func() string { return t.signature(origin + "/") },
		Foreign:   foreign,
	}
}

var anyIdentity = core.Identity(nil) // a management API knows its client by the token

// transport sends management requests as plain HTTP where the connection string
// means plain text; the SDK would use TLS.
type transport struct {
	client *http.Client
	plain  bool
}

// Do implements policy.Transporter.
func (t *transport) Do(req *http.Request) (*http.Response, error) {
	if t.plain {
		req.URL.Scheme = "http"
	}
	return t.client.Do(req)
}

// entity picks the entity of a command: its argument, else the connection string's EntityPath.
func (t *target) entity(args []string) (string, error) {
	switch {
	case len(args) > 0 && args[0] != "":
		return args[0], nil
	case t.EntityPath != "":
		return t.EntityPath, nil
	default:
		return "", usagef("no entity is named: give its name, or a connection string with EntityPath")
	}
}

// common are the flags of every client command.
type common struct {
	environ          []string
	connectionString string
	context          string
	ca               string
	data             string
	json             bool
}

func (o *common) bind(c *cobra.Command, environ []string) {
	o.bindConnection(c, environ)
	c.Flags().BoolVar(&o.json, "json", false, "print JSON")
}

// flagsOf are the flags as a command line has given them so far, for its completion. The command may lack any.
func flagsOf(c *cobra.Command, environ []string) *common {
	text := func(name string) string {
		if f := c.Flags().Lookup(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	return &common{environ: environ, connectionString: text("connection-string"), context: text("context"), ca: text("ca"), data: text("data")}
}

// bindConnection adds the flags that say where to connect.
func (o *common) bindConnection(c *cobra.Command, environ []string) {
	o.bindWhere(c, environ)
	c.Flags().StringVar(&o.data, "data", config.Data(environ), "data `directory` of the local gateway, whose development CA is trusted for this machine")
}

// bindWhere adds the flags that choose a namespace.
func (o *common) bindWhere(c *cobra.Command, environ []string) {
	o.environ = environ
	f := c.Flags()
	f.StringVar(&o.connectionString, "connection-string", "", "namespace to use, as a Service Bus connection `string` (default $"+connectionVariable+", else the current context, else a local gateway)")
	f.StringVar(&o.context, "context", "", "`name` of the context to use (crosstown context list)")
	f.StringVar(&o.ca, "ca", "", "PEM `file` of an authority to trust for TLS")
	c.MarkFlagsMutuallyExclusive("connection-string", "context")
}

// Connection is how commands beside those of this package reach a gateway.
type Connection struct{ common }

// Bind adds the flags that choose the namespace.
func (n *Connection) Bind(c *cobra.Command, environ []string) { n.bindWhere(c, environ) }

// Given reports whether a flag names the namespace.
func (n *Connection) Given() bool { return n.connectionString != "" || n.context != "" }

// Reached is a gateway over HTTP.
type Reached struct {
	URL       string // http://host:port or https://host:port
	Origin    string // where the connection string is from, unless the command line or the default has it
	HTTP      *http.Client
	Authorize func() string // makes a header for requests about the whole namespace
}

// Reach finds the gateway that the flags, the environment and the contexts name; data is the directory
// of the local one.
func (n *Connection) Reach(data string) (*Reached, error) {
	n.data = data
	t, err := n.target()
	if err != nil {
		return nil, err
	}
	url := "https://" + t.Host
	if t.Emulator {
		url = "http://" + t.Host
	}
	return &Reached{
		URL: url, Origin: t.origin, Authorize: func() string { return t.signature(url + "/") },
		HTTP: &http.Client{Transport: &http.Transport{TLSClientConfig: t.tls, Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}},
	}, nil
}
