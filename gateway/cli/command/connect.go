package command

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

	"github.com/crosstown-mq/crosstown/bridges/https"
	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/devca"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
)

const ConnectionVariable = "CROSSTOWN_CONNECTION_STRING"

const localConnection = "Endpoint=sb://localhost:5672;SharedAccessKeyName=" + config.DevPolicy + ";SharedAccessKey=" + config.DevKey + ";UseDevelopmentEmulator=true"

type Target struct {
	auth.ConnectionString
	Text   string
	origin string // variable or context that contains Text; "" for a flag or the default
	CA     string // PEM file of a trusted authority, or ""
	TLS    *tls.Config
}

// Target returns the namespace that the flags, the environment or the current context specify. If
// the connection string, context name or authority file is wrong, the error is a UsageError.
func (o *Flags) Target() (*Target, error) {
	t, err := o.chosen()
	if err != nil {
		return nil, err
	}
	if err := o.resolve(t); err != nil {
		if t.origin != "" {
			err = Usagef("%s: %w", t.origin, err)
		}
		return nil, err
	}
	return t, nil
}

func (o *Flags) chosen() (*Target, error) {
	named, by := o.Context, "--context"
	switch {
	case o.ConnectionString != "":
		return &Target{Text: o.ConnectionString, CA: o.CA}, nil
	case named != "":
	default:
		if text := config.Variable(o.Environ, ConnectionVariable); text != "" {
			return &Target{Text: text, origin: ConnectionVariable, CA: o.CA}, nil
		}
		named, by = config.Variable(o.Environ, ContextVariable), ContextVariable
	}
	file, err := LoadContexts(o.Environ)
	if err != nil {
		return nil, err
	}
	if named == "" {
		if named, by = file.Current, "the current context"; named == "" {
			return &Target{Text: localConnection, CA: o.CA}, nil
		}
	}
	held, err := file.Get(named)
	if err != nil {
		return nil, Usagef("%s: %w", by, err)
	}
	return &Target{Text: held.ConnectionString, origin: fmt.Sprintf("context %s of %s", named, file.Path), CA: cmp.Or(o.CA, held.CA)}, nil
}

// Other returns the target for named, which is a connection string or the name of a context.
func (o *Flags) Other(named string) (*Target, error) {
	second := &Flags{Environ: o.Environ, CA: o.CA, Data: o.Data}
	if strings.Contains(named, "=") { // every connection string contains "=", no context name does
		second.ConnectionString = named
	} else {
		second.Context = named
	}
	return second.Target()
}

func (o *Flags) resolve(t *Target) (err error) {
	if t.ConnectionString, err = auth.ParseConnectionString(t.Text); err != nil {
		return Usagef("%w: write Endpoint=sb://HOST[:PORT];SharedAccessKeyName=NAME;SharedAccessKey=KEY, with ;UseDevelopmentEmulator=true for a connection without TLS", err)
	}
	// If ServerName is empty, go-amqp verifies the certificate against HOST:PORT.
	t.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.Host}
	if host, _, err := net.SplitHostPort(t.Host); err == nil {
		t.TLS.ServerName = host
	}
	t.TLS.RootCAs, err = o.Roots(t.CA, t.IsLocal())
	return err
}

func (t *Target) IsLocal() bool { return listen.IsLoopback(net.JoinHostPort(t.TLS.ServerName, "0")) }

// CheckConnection checks a connection string. If ca is not "", it also reads this authority file.
func CheckConnection(connectionString, ca string) error {
	return new(Flags).resolve(&Target{Text: connectionString, CA: ca})
}

// Roots returns the authorities of the system, and the one in the file ca. If local is true, it
// adds the development CA. If it cannot read ca, the error is a UsageError.
func (o *Flags) Roots(ca string, local bool) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if ca != "" {
		if err := config.AddAuthorities(pool, ca); err != nil {
			return nil, Usagef("--ca: %w", err)
		}
	}
	if local && o.Data != "" {
		pem, err := os.ReadFile(devca.Path(o.Data))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot read the certificate of the development CA: %w", err)
		}
		pool.AppendCertsFromPEM(pem)
	}
	return pool, nil
}

// Link opens an AMQP connection. It does not retry: on a terminal, an error is better than a wait.
// The token is valid for entity or, if entity is "", for the namespace.
func (t *Target) Link(ctx context.Context, entity string) (*remote.Client, error) {
	o, plain, err := (&config.Remote{ConnectionString: t.Text}).Options()
	if err != nil {
		return nil, err
	}
	o.Name, o.Entity = o.Host, entity
	o.Dial = func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", o.Address) }
	if !plain {
		o.TLS = t.TLS
	}
	return remote.Connect(ctx, o)
}

// Management returns a client that passes properties that Crosstown does not have to foreign.
func (t *Target) Management(foreign func(entity, property, value string)) *https.AdminClient {
	return &https.AdminClient{
		Origin:    t.URL(),
		HTTP:      &http.Client{Transport: &http.Transport{TLSClientConfig: t.TLS, Proxy: http.ProxyFromEnvironment}, Timeout: InquiryTimeout},
		Authorize: t.signature,
		Foreign:   foreign,
	}
}

// AnyIdentity is for calls over the management API, where the token determines the identity.
var AnyIdentity = core.Identity(nil)

// TargetEntity takes the entity from args or, if args is empty, from EntityPath in the connection
// string. If both are missing, it returns a UsageError.
func (o *Flags) TargetEntity(args []string) (t *Target, entity string, err error) {
	if t, err = o.Target(); err != nil {
		return nil, "", err
	}
	if len(args) > 0 {
		entity = args[0]
	}
	if entity = cmp.Or(entity, t.EntityPath); entity == "" {
		return nil, "", Usagef("no entity is specified: write its name, or use a connection string with EntityPath")
	}
	return t, entity, nil
}

func (t *Target) URL() string {
	if t.Emulator {
		return "http://" + t.Host
	}
	return "https://" + t.Host
}

// HTTP returns a client that uses a separate connection for each request.
func (t *Target) HTTP() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: t.TLS, Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
}

// Address returns the target's address for AMQP connections, as host:port.
func (t *Target) Address() string {
	o, _, err := (&config.Remote{ConnectionString: t.Text}).Options()
	if err != nil {
		return t.Host
	}
	return o.Address
}
