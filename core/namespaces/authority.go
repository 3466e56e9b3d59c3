package namespaces

import (
	"context"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
)

// Token implements core.Authority. A JSON web token is for the namespace of the
// host, or for the gateway's own; so is a signature by an entity's policy.
func (d *Directory) Token(ctx context.Context, hosts []string, token, audience string) (core.Grant, error) {
	judge := func(m *member) (core.Grant, error) {
		return m.record.Load().authority.Token(ctx, hosts, token, audience)
	}
	s, web, err := auth.ParseSignature(token)
	if web || err != nil { // there is nothing to look for
		m, _ := d.decide(hosts, "", nil)
		return judge(m)
	}
	fits := func(m *member) bool { return s.SignedBy(m.record.Load().Policies) }
	return d.prove(ctx, hosts, s.Policy(), fits, judge)
}

// Key implements core.Authority.
func (d *Directory) Key(ctx context.Context, hosts []string, policy, key string) (core.Grant, error) {
	grant := func(m *member) (core.Grant, error) {
		return m.record.Load().authority.Key(ctx, hosts, policy, key)
	}
	fits := func(m *member) bool {
		_, err := grant(m)
		return err == nil
	}
	return d.prove(ctx, hosts, policy, fits, grant)
}

// prove has the namespace that a peer wants to be in judge its credentials. What
// no policy that is known here has signed may be of a namespace, or by a key, that
// another gateway has just made: then the registry is asked.
func (d *Directory) prove(ctx context.Context, hosts []string, policy string, fits func(*member) bool, judge func(*member) (core.Grant, error)) (core.Grant, error) {
	m, version := d.decide(hosts, policy, fits)
	grant, err := judge(m)
	if core.CodeOf(err) != core.Unauthorized || fits(m) || !d.look(ctx, version) {
		return grant, err
	}
	m, _ = d.decide(hosts, policy, fits)
	return judge(m)
}

// decide finds the namespace that a peer wants to be in: that of the first host
// that is one's; else of those that have a policy of that name the one whose key
// fits, the gateway's own first; else the gateway's own. It also returns the version of what is known.
func (d *Directory) decide(hosts []string, policy string, fits func(*member) bool) (*member, uint64) {
	d.mu.RLock()
	version := d.version
	for _, h := range hosts {
		if m := d.byHost[foldHost(h)]; m != nil {
			d.mu.RUnlock()
			return m, version
		}
	}
	bearers := len(d.byPolicy[policy])
	d.mu.RUnlock()
	if bearers == 0 || fits(d.own) {
		return d.own, version
	}
	for _, m := range d.bearers(policy, recent) {
		if fits(m) {
			return m, version
		}
	}
	if bearers <= recent {
		return d.own, version
	}
	for _, m := range d.bearers(policy, bearers) {
		if fits(m) {
			d.prefer(policy, m)
			return m, version
		}
	}
	return d.own, version
}

// bearers are the first namespaces with a policy of that name, at most so many.
func (d *Directory) bearers(policy string, most int) []*member {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all := d.byPolicy[policy]
	return slices.Clone(all[:min(most, len(all))])
}

// recent is how many namespaces with a policy of one name are tried in any order:
// one that is found behind them is put first. So it takes long only to find one that
// was not used for a while, however many there are.
const recent = 16

// prefer has m tried first for the policy.
func (d *Directory) prefer(policy string, m *member) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.byPolicy[policy]
	if i := slices.Index(all, m); i > 0 {
		copy(all[1:], all[:i])
		all[0] = m
	}
}

// Enter implements core.Authority.
func (d *Directory) Enter(id core.Identity, closed func(error)) (leave func(), err error) {
	m, err := d.of(id)
	if err != nil {
		return nil, err
	}
	return m.enter(closed)
}
