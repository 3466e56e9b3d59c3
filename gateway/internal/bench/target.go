package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/crosstown-mq/crosstown/core/auth"
)

type target struct {
	address string // without credentials
	host    string // without port, for TLS
	entity  string
	roots   *x509.CertPool                            // nil for those of the system
	dialer  func(context.Context) (Connection, error) // for a scheme of Options.Dialers

	user, password string // for SASL PLAIN; "" without it

	pack bool

	claims bool   // send a token on each connection
	policy string // a shared access policy and its key, or a token
	key    string
	token  string
}

func (o *Options) targets() ([]target, error) {
	if o.ConnectionString != "" {
		t := target{entity: o.Entity, roots: o.Roots}
		err := t.readConnectionString(o.ConnectionString)
		return []target{t}, err
	}
	var all []target
	for _, address := range o.URLs {
		t, err := o.readURL(address)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func (o *Options) readURL(address string) (target, error) {
	t := target{entity: o.Entity, roots: o.Roots, pack: o.MessagePack}
	u, err := url.Parse(address)
	if err == nil && u.Host != "" && o.Dialers[u.Scheme] != nil {
		t.address = u.Redacted()
		t.dialer = func(ctx context.Context) (Connection, error) { return o.Dialers[u.Scheme](ctx, address) }
		return t, nil
	}
	if err != nil || u.Host == "" || ports[u.Scheme] == "" {
		return t, errors.New("--url is not the URL of a broker: use amqp://[user:password@]host[:port], amqps://…, ws://… or wss://…") // err might contain the password
	}
	if u.User != nil {
		t.user = u.User.Username()
		t.password, _ = u.User.Password()
	}
	if strings.HasPrefix(u.Scheme, "ws") {
		t.policy, t.key = t.user, t.password // the protocol has tokens instead of SASL
	}
	t.setAddress(u)
	return t, nil
}

// ports has the default ports. The gateway's own protocol uses its HTTP ports.
var ports = map[string]string{"amqp": "5672", "amqps": "5671", "ws": "5300", "wss": "8443"}

func (t *target) setAddress(u *url.URL) {
	port := u.Port()
	if port == "" {
		port = ports[u.Scheme]
	}
	t.host = u.Hostname()
	t.address = (&url.URL{Scheme: u.Scheme, Host: net.JoinHostPort(t.host, port)}).String()
}

// readConnectionString takes the target from s: without TLS for UseDevelopmentEmulator=true.
func (t *target) readConnectionString(s string) error {
	c, err := auth.ParseConnectionString(s)
	if err != nil {
		return fmt.Errorf("--connection-string: %w", err)
	}
	t.claims, t.policy, t.key, t.token = true, c.KeyName, c.Key, c.Signature
	if t.entity == "" {
		t.entity = c.EntityPath
	}
	scheme := "amqps"
	if c.Emulator {
		scheme = "amqp"
	}
	t.setAddress(&url.URL{Scheme: scheme, Host: c.Host})
	return nil
}

func (t *target) dial(ctx context.Context) (Connection, error) {
	if t.dialer != nil {
		return t.dialer(ctx)
	}
	if strings.HasPrefix(t.address, "ws") {
		return t.dialWebSocket(ctx)
	}
	return t.dialAMQP(ctx)
}

func (t *target) tlsConfig() *tls.Config {
	return &tls.Config{ServerName: t.host, MinVersion: tls.VersionTLS12, RootCAs: t.roots}
}
