package namespaces

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

const MaxHosts = 32

// CheckName requires a DNS label, because the namespace's hosts begin with its name.
func CheckName(name string) error {
	if !isLabel(name) {
		return core.Refuse(core.InvalidArgument, "'%.80s' is not a valid namespace name: use 1 to 63 letters, digits and hyphens, without a hyphen at the start or end.", name)
	}
	return nil
}

// CheckHost accepts only host names without a port: no IP addresses, and not localhost.
func CheckHost(host string) error {
	name := foldHost(host)
	_, err := netip.ParseAddr(name)
	switch {
	case err == nil || name == "localhost":
		return core.Refuse(core.InvalidArgument, "The host %s cannot identify a namespace, because IP addresses and localhost belong to all namespaces: specify a host name such as orders.example.com.", host)
	case len(host) > 253 || slices.ContainsFunc(strings.Split(strings.TrimSuffix(host, "."), "."), func(part string) bool { return !isLabel(part) }):
		return core.Refuse(core.InvalidArgument, "'%.80s' is not a valid host name: write it without scheme and port, such as orders.example.com.", host)
	}
	return nil
}

var label = regexp.MustCompile(`^[0-9A-Za-z]([0-9A-Za-z-]{0,61}[0-9A-Za-z])?$`)

func isLabel(s string) bool { return label.MatchString(s) }

// CheckPolicy refuses a policy without a name, a key or rights, or with a key that a connection
// string cannot contain.
func CheckPolicy(p *core.AccessRule) error {
	switch {
	case p.Name == "" || len(p.Name) > core.MaxKeyLength || strings.ContainsAny(p.Name, ";&= \t\n"):
		return core.Refuse(core.InvalidArgument, "'%.80s' is not a valid policy name: use 1 to %d letters, digits and hyphens.", p.Name, core.MaxKeyLength)
	case p.PrimaryKey == "" && p.Certificate == "":
		return core.Refuse(core.InvalidArgument, "The policy '%s' has neither a key nor a certificate: specify one of them.", p.Name)
	case strings.ContainsAny(p.PrimaryKey+p.SecondaryKey, "; \t\n"):
		return core.Refuse(core.InvalidArgument, "A key of the policy '%s' contains a space or a semicolon, which connection strings do not allow: use another key.", p.Name)
	case p.Rights == 0:
		return core.Refuse(core.InvalidArgument, "The policy '%s' has no rights: add Send, Listen or Manage.", p.Name)
	}
	return nil
}

// SharesKey reports whether the same name and key fit both policies.
func SharesKey(p, q *core.AccessRule) bool {
	if p.Name != q.Name {
		return false
	}
	for _, key := range [...]string{p.PrimaryKey, p.SecondaryKey} {
		if key != "" && (key == q.PrimaryKey || key == q.SecondaryKey) {
			return true
		}
	}
	return false
}

// check refuses a namespace that clients could not reach, or could mistake for another one.
func (d *Directory) check(n *core.Namespace) error {
	if len(n.Hosts) > MaxHosts {
		return core.Refuse(core.OutOfRange, "The namespace '%s' has %d hosts: at most %d are allowed.", n.Name, len(n.Hosts), MaxHosts)
	}
	if len(n.Policies) == 0 || len(n.Policies) > core.MaxAccessRules {
		return core.Refuse(core.OutOfRange, "The namespace '%s' has %d policies: it must have 1 to %d.", n.Name, len(n.Policies), core.MaxAccessRules)
	}
	if q := n.Quotas; q.MaxEntities < 0 || q.MaxConnections < 0 || q.MaxSizeMegabytes < 0 {
		return core.Refuse(core.OutOfRange, "A quota of the namespace '%s' is negative: use a positive number, or 0 for no limit.", n.Name)
	}
	for _, h := range n.Hosts {
		if err := CheckHost(h); err != nil {
			return err
		}
	}
	for i := range n.Policies {
		p := &n.Policies[i]
		if err := CheckPolicy(p); err != nil {
			return err
		}
		if slices.ContainsFunc(n.Policies[:i], func(q core.AccessRule) bool { return q.Name == p.Name }) {
			return core.Refuse(core.InvalidArgument, "The policy '%s' is listed twice: remove one.", p.Name)
		}
		if slices.Contains(d.o.PublicKeys, p.PrimaryKey) || slices.Contains(d.o.PublicKeys, p.SecondaryKey) {
			return core.Refuse(core.InvalidArgument, "The key of the policy '%s' is publicly known: use another key, or omit the key to get a random one.", p.Name)
		}
	}
	return d.checkOthers(n)
}

func (d *Directory) checkOthers(n *core.Namespace) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	self := d.byName[core.FoldName(n.Name)]
	for _, h := range HostsOf(n) {
		if m := d.byHost[h]; m != nil && m != self {
			return core.Refuse(core.AlreadyExists, "The host %s already belongs to the namespace '%s'.", h, m.record.Load().Name)
		}
	}
	for i := range n.Policies {
		p := &n.Policies[i]
		for _, m := range append([]*Member{d.own}, d.byPolicy[p.Name]...) {
			if m != self && slices.ContainsFunc(m.record.Load().Policies, func(q core.AccessRule) bool { return SharesKey(p, &q) }) {
				return core.Refuse(core.InvalidArgument, "The namespace '%[2]s' already has the policy '%[1]s' with this key: choose another key.", p.Name, m.record.Load().Name)
			}
		}
	}
	return nil
}

// ownDomains are domains in which each namespace has a host with its name: one for clients that
// connect to another address than the host they name, and one that most systems resolve locally.
var ownDomains = []string{".servicebus.windows.net", ".localhost"}

func HostsOf(n *core.Namespace) []string {
	var all []string
	for _, domain := range ownDomains {
		all = append(all, strings.ToLower(n.Name)+domain)
	}
	for _, h := range n.Hosts {
		all = append(all, foldHost(h))
	}
	return all
}

// foldHost folds a name by which a client called the gateway, without scheme, port and path.
func foldHost(called string) string {
	if _, rest, ok := strings.Cut(called, "://"); ok {
		called = rest
	}
	called, _, _ = strings.Cut(called, "/")
	return core.FoldHost(called)
}

func (d *Directory) Answers(host string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byHost[foldHost(host)] != nil
}
