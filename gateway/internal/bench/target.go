package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/auth"
)

// target is where to connect, and as whom.
type target struct {
	address string // amqp://host:port or amqps://host:port, without credentials
	host    string // host name without port, for TLS
	entity  string
	caFile  string

	user, password string // SASL PLAIN, when there is a user

	claims bool   // put a token on every connection
	policy string // shared access policy and key, or a ready-made token
	key    string
	token  string
}

func (o *Options) target() (target, error) {
	t := target{entity: o.Entity, caFile: o.CAFile}
	if o.ConnectionString != "" {
		return t, t.readConnectionString(o.ConnectionString)
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "amqp" && u.Scheme != "amqps" {
		return t, errors.New("--url: use amqp://[user:password@]host[:port] or amqps://…") // err could repeat the password
	}
	if u.User != nil {
		t.user = u.User.Username()
		t.password, _ = u.User.Password()
	}
	t.setAddress(u.Scheme == "amqps", u)
	return t, nil
}

func (t *target) setAddress(secure bool, u *url.URL) {
	scheme, port := "amqp", "5672"
	if secure {
		scheme, port = "amqps", "5671"
	}
	if u.Port() != "" {
		port = u.Port()
	}
	t.host = u.Hostname()
	t.address = (&url.URL{Scheme: scheme, Host: net.JoinHostPort(t.host, port)}).String()
}

// readConnectionString reads a Service Bus connection string; with
// UseDevelopmentEmulator=true it means AMQP without TLS.
func (t *target) readConnectionString(s string) error {
	c, err := auth.ParseConnectionString(s)
	if err != nil {
		return fmt.Errorf("--connection-string: %w", err)
	}
	t.claims, t.policy, t.key, t.token = true, c.KeyName, c.Key, c.Signature
	if t.entity == "" {
		t.entity = c.EntityPath
	}
	t.setAddress(!c.Emulator, &url.URL{Host: c.Host})
	return nil
}

// dial opens a connection and proves who we are.
func (t *target) dial(ctx context.Context) (*amqp.Conn, error) {
	o := &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous(), HostName: t.host}
	if t.user != "" {
		o.SASLType = amqp.SASLTypePlain(t.user, t.password)
	}
	if strings.HasPrefix(t.address, "amqps:") {
		config, err := t.tlsConfig()
		if err != nil {
			return nil, err
		}
		o.TLSConfig = config
	}
	conn, err := amqp.Dial(ctx, t.address, o)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", t.address, plain(err))
	}
	if t.claims {
		if err := t.putToken(ctx, conn); err != nil {
			_ = conn.Close() // the refusal matters more
			return nil, fmt.Errorf("put a token for %s at %s: %w", t.entity, t.address, plain(err))
		}
	}
	return conn, nil
}

func (t *target) tlsConfig() (*tls.Config, error) {
	c := &tls.Config{ServerName: t.host, MinVersion: tls.VersionTLS12}
	if t.caFile == "" {
		return c, nil
	}
	pem, err := os.ReadFile(t.caFile)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--ca %s: no certificate in PEM form in it", t.caFile)
	}
	return c, nil
}
