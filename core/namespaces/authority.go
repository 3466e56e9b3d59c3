package namespaces

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
)

// Token verifies a JSON web token, or a signature by an entity's policy, in the namespace that has
// one of the hosts; if none has, in the gateway's own namespace.
func (d *Directory) Token(ctx context.Context, hosts []string, token, audience string) (core.Grant, error) {
	authorize := func(m *Member) (core.Grant, error) {
		return m.record.Load().authority.Token(ctx, hosts, token, audience)
	}
	s, web, err := auth.ParseSignature(token)
	if web || err != nil { // s names no policy
		m, _, _ := d.decide(credentials{hosts: hosts})
		return d.granted(ctx)(authorize(m))
	}
	fits := func(m *Member) bool { return s.SignedBy(m.record.Load().Policies) != 0 }
	if _, host, ok := strings.Cut(s.Resource, "://"); ok { // without a scheme, the host may be an entity's name
		hosts = append(slices.Clip(hosts), host)
	}
	return d.granted(ctx)(d.prove(ctx, credentials{hosts, s.Policy, fits, authorize}))
}

func (d *Directory) Key(ctx context.Context, hosts []string, policy, key string) (core.Grant, error) {
	grant := func(m *Member) (core.Grant, error) {
		return m.record.Load().authority.Key(ctx, hosts, policy, key)
	}
	fits := func(m *Member) bool {
		_, err := grant(m)
		return err == nil
	}
	return d.granted(ctx)(d.prove(ctx, credentials{hosts, policy, fits, grant}))
}

func (d *Directory) granted(ctx context.Context) func(core.Grant, error) (core.Grant, error) {
	return func(g core.Grant, err error) (core.Grant, error) {
		if err != nil {
			return g, err
		}
		m, err := d.of(core.Identity{g})
		if err != nil {
			return core.Grant{}, err
		}
		if s := m.opened.Load(); s != nil && s.Grant != nil {
			return s.Grant(ctx, g)
		}
		return g, nil
	}
}

// Within returns g for g's own namespace. For another one, it returns a grant with the same rights
// if g is an operator's; otherwise it refuses, whether or not the namespace exists.
func (d *Directory) Within(ctx context.Context, g core.Grant, namespace string) (core.Grant, error) {
	if core.FoldName(namespace) == core.FoldName(g.Namespace) {
		return g, nil
	}
	if !d.Operator(core.Identity{g}, time.Now()) {
		return core.Grant{}, core.Refuse(core.Unauthorized, "Unauthorized access. For namespaces other than '%s', 'Manage' on the gateway's own namespace is required.", g.Namespace)
	}
	m, err := d.find(ctx, namespace)
	if err != nil {
		return core.Grant{}, err
	}
	r := m.record.Load()
	g.Namespace, g.NamespaceID = r.Name, r.ID
	return d.granted(ctx)(g, nil)
}

type credentials struct {
	hosts     []string // by which the client has called the gateway, the most specific first
	policy    string
	fits      func(*Member) bool // reports whether the client's key is one of the policy's keys in that namespace
	authorize func(*Member) (core.Grant, error)
}

// If a client's credentials do not fit, prove reads the registry and tries again, because another
// gateway may have just created the namespace or the key.
func (d *Directory) prove(ctx context.Context, c credentials) (core.Grant, error) {
	m, version, err := d.decide(c)
	if err != nil {
		return core.Grant{}, err
	}
	grant, err := c.authorize(m)
	if core.CodeOf(err) != core.Unauthorized || d.keyFits(m, c) || !d.readShared(ctx, version) {
		return grant, err
	}
	if m, _, err = d.decide(c); err != nil {
		return core.Grant{}, err
	}
	return c.authorize(m)
}

// decide returns the namespace of a client: the one that has the first of the client's hosts that
// any namespace has. If none has, it is the first namespace, beginning with the gateway's own, with
// a policy of the client's name and key; otherwise the gateway's own. version is that of the
// namespaces. decide fails if clients have tried too many wrong keys.
func (d *Directory) decide(c credentials) (m *Member, version uint64, err error) {
	d.mu.RLock()
	version = d.version
	for _, h := range c.hosts {
		if m := d.byHost[foldHost(h)]; m != nil {
			d.mu.RUnlock()
			return m, version, nil
		}
	}
	bearers := len(d.byPolicy[c.policy])
	d.mu.RUnlock()
	if bearers == 0 || d.keyFits(d.own, c) {
		return d.own, version, nil
	}
	for _, m := range d.membersByPolicy(c.policy, 0, recentlyUsed) {
		if d.keyFits(m, c) {
			return m, version, nil
		}
	}
	if bearers <= recentlyUsed {
		return d.own, version, nil
	}
	rest := d.membersByPolicy(c.policy, recentlyUsed, bearers)
	if !d.searches.take(len(rest)) {
		return nil, version, core.Refuse(core.Busy, "Too many clients connect to this gateway with unknown keys. Specify the namespace in the host name, as in 'sb://NAMESPACE.servicebus.windows.net/', or try again later.")
	}
	for _, m := range rest {
		if d.keyFits(m, c) {
			d.searches.give(len(rest))
			d.prefer(c.policy, m)
			return m, version, nil
		}
	}
	return d.own, version, nil
}

func (d *Directory) keyFits(m *Member, c credentials) bool {
	d.tries.Add(1)
	return c.fits(m)
}

func (d *Directory) membersByPolicy(policy string, from, to int) []*Member {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all := d.byPolicy[policy]
	to = min(to, len(all))
	return slices.Clone(all[min(from, to):to])
}

// recentlyUsed is how many namespaces, for each name of a policy, are kept in order of use. One
// that is found behind them moves to the front, so only idle namespaces take long to find.
const recentlyUsed = 16

// searchesPerSecond is how many namespaces, besides the recently used ones, may be tried in vain
// per second, for all clients together. A try computes two hashes, which takes a few microseconds.
const searchesPerSecond = 10_000

type searches struct {
	mu   sync.Mutex
	owed float64 // the tries so far, minus searchesPerSecond for each second
	at   time.Time
}

// take takes n tries if any is left, so one search may exceed searchesPerSecond.
func (s *searches) take(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.owed = max(0, s.owed-now.Sub(s.at).Seconds()*searchesPerSecond)
	s.at = now
	if s.owed >= searchesPerSecond {
		return false
	}
	s.owed += float64(n)
	return true
}

// give adds n tries to the budget again, after a search that has found a key.
func (s *searches) give(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owed = max(0, s.owed-float64(n))
}

func (d *Directory) prefer(policy string, m *Member) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.byPolicy[policy]
	if i := slices.Index(all, m); i > 0 {
		copy(all[1:], all[:i])
		all[0] = m
	}
}

func (d *Directory) KeyTries() uint64 { return d.tries.Load() }

func (d *Directory) Enter(id core.Identity, closed func(error)) (leave func(), err error) {
	m, err := d.of(id)
	if err != nil {
		return nil, err
	}
	return m.enter(closed)
}
