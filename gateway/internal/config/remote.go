package config

import (
	"cmp"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/namespaces"
)

// Remote is another broker. A namespace can forward messages to it, and pull messages from it.
// Exactly one of ConnectionString, URL and Namespace is set.
type Remote struct {
	Name             string `config:"name"`
	ConnectionString string `config:"connection-string"`
	URL              string `config:"url"`       // amqp:// or amqps:// with host and port
	Namespace        string `config:"namespace"` // namespace of this gateway, which a client may create later

	Username string `config:"username"` // Username and Password are for SASL PLAIN
	Password string `config:"password"`
	Policy   string `config:"policy"` // Policy and Key sign shared access signatures
	Key      string `config:"key"`

	CA         string `config:"ca"`          // PEM file of the authorities that sign the remote's certificate; default: the system's
	ServerName string `config:"server-name"` // host name in the remote's certificate and in requests; default: the host of the address

	Window  int           `config:"window" range:"1 to 10000"` // messages in flight
	Batches *bool         `config:"batches"`                   // the remote supports Service Bus's batches; default: false with a URL and no policy
	Pull    []remote.Pull `config:"pull"`
}

// Options returns options without Dial and TLS. If plain is true, the connection must not use TLS.
// For a namespace of this gateway, Address is "". Errors contain no secrets.
func (m *Remote) Options() (o remote.Options, plain bool, err error) {
	o = remote.Options{
		Name: m.Name, Window: m.Window, Pulls: m.Pull, User: m.Username, Password: m.Password, Policy: m.Policy, Key: m.Key,
		Batches: m.ConnectionString != "" || m.Policy != "" || m.Namespace != "",
	}
	if m.Batches != nil {
		o.Batches = *m.Batches
	}
	address := ""
	switch {
	case m.ConnectionString != "":
		c, err := auth.ParseConnectionString(m.ConnectionString)
		if err != nil {
			return o, false, err
		}
		o.Policy, o.Key, o.Signature, o.Entity, plain, address = c.KeyName, c.Key, c.Signature, c.EntityPath, c.Emulator, c.Host
	case m.URL != "":
		u, err := url.Parse(m.URL)
		if err != nil || u.Host == "" || u.User != nil || u.Scheme != "amqp" && u.Scheme != "amqps" || strings.Trim(u.Path, "/") != "" {
			return o, false, core.Refuse(core.InvalidArgument, "the value is not an address of the form amqps://host:port or amqp://host:port: write one, and set the credentials in username and password, or in policy and key")
		}
		plain, address = u.Scheme == "amqp", u.Host
	default:
		o.Host = m.Namespace + ".localhost"
		return o, false, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = strings.Trim(address, "[]"), "5671"
		if plain {
			port = "5672"
		}
	}
	o.Address, o.Host = net.JoinHostPort(host, port), cmp.Or(m.ServerName, host)
	return o, plain, nil
}

func (m *Remote) validate(path, self string, taken *names, r *report) {
	r.name(path, "remote", m.Name, taken, "")
	m.validateEndpoint(path, self, r)
	if m.CA != "" {
		if _, err := os.ReadFile(m.CA); err != nil {
			r.add(path+".ca", "%v: specify a file that exists and that the current user may read", err)
		}
	}
	for i, p := range m.Pull {
		path := elementPath(path+".pull", i)
		if p.From == "" {
			r.add(path+".from", "the source is missing: specify an entity of the remote")
		}
		r.refused(path+".into", core.ValidateName(p.Into))
	}
}

func (m *Remote) validateEndpoint(path, self string, r *report) {
	named := 0
	for _, by := range []string{m.ConnectionString, m.URL, m.Namespace} {
		if by != "" {
			named++
		}
	}
	if named != 1 {
		r.add(path, "the remote has %d addresses: set exactly one of connection-string, url and namespace", named)
		return
	}
	if _, _, err := m.Options(); err != nil {
		at := path + ".url"
		if m.ConnectionString != "" {
			at = path + ".connection-string"
		}
		r.add(at, "%v", err)
	}
	if m.Namespace != "" {
		if err := namespaces.CheckName(m.Namespace); err != nil {
			r.add(path+".namespace", "%v", err)
		} else if strings.EqualFold(m.Namespace, self) {
			r.add(path+".namespace", "%q is this namespace, which cannot be its own remote: forward to its entities without a remote", m.Namespace)
		}
	}
	switch {
	case m.URL == "" && (m.Username != "" || m.Password != "" || m.Policy != "" || m.Key != ""):
		r.add(path, "username, password, policy and key are only allowed with url")
	case (m.Username == "") != (m.Password == ""):
		r.add(path, "username and password must be set together")
	case (m.Policy == "") != (m.Key == ""):
		r.add(path, "policy and key must be set together")
	case m.Username != "" && m.Policy != "":
		r.add(path, "username and password cannot be combined with policy and key: keep one pair")
	}
}
