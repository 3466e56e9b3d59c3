package namespaces

import (
	"cmp"
	"context"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
)

// Token implements core.Authority. A JSON web token is for the namespace of the
// host, or for the gateway's own; so is a signature by an entity's policy.
func (d *Directory) Token(ctx context.Context, hosts []string, token, audience string) (core.Grant, error) {
	policy, web := auth.PolicyOf(token)
	fits := func(m *member) bool { return m.record.Load().authority.Signed(token) }
	return d.prove(ctx, hosts, policy, fits, func(m *member) (core.Grant, error) {
		return m.record.Load().authority.Token(ctx, hosts, token, audience)
	}, web)
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
	return d.prove(ctx, hosts, policy, fits, grant, false)
}

// prove has the namespace that a peer wants to be in judge its credentials. What
// no policy that is known here has signed may be of a namespace, or by a key, that
// another gateway has just made: then the registry is asked.
func (d *Directory) prove(ctx context.Context, hosts []string, policy string, fits func(*member) bool, judge func(*member) (core.Grant, error), final bool) (core.Grant, error) {
	m, version := d.decide(hosts, policy, fits)
	grant, err := judge(m)
	if core.CodeOf(err) != core.Unauthorized || final || policy == "" || fits(m) || !d.look(ctx, version) {
		return grant, err
	}
	m, _ = d.decide(hosts, policy, fits)
	return judge(m)
}

// decide finds the namespace that a peer wants to be in: that of the first host
// that is one's; else of those that have a policy of that name the one whose key
// fits; else the gateway's own. It also returns the version of what is known.
func (d *Directory) decide(hosts []string, policy string, fits func(*member) bool) (*member, uint64) {
	d.mu.RLock()
	version := d.version
	for _, h := range hosts {
		if m := d.byHost[foldHost(h)]; m != nil {
			d.mu.RUnlock()
			return m, version
		}
	}
	candidates := make([]*member, 0, len(d.byPolicy[policy]))
	for m := range d.byPolicy[policy] {
		candidates = append(candidates, m)
	}
	d.mu.RUnlock()
	if len(candidates) == 0 || fits(d.own) {
		return d.own, version
	}
	slices.SortFunc(candidates, func(a, b *member) int {
		return cmp.Compare(core.FoldName(a.record.Load().Name), core.FoldName(b.record.Load().Name))
	})
	for _, m := range candidates {
		if fits(m) {
			return m, version
		}
	}
	return d.own, version
}

// Enter implements core.Authority.
func (d *Directory) Enter(id core.Identity, closed func(error)) (leave func(), err error) {
	m, err := d.of(id)
	if err != nil {
		return nil, err
	}
	return m.enter(closed)
}
