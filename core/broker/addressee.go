package broker

import (
	"context"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

// addressee is the router that takes a message's To for what it says: where that
// is a queue or topic of the namespace that one of the patterns fits, there the
// message goes. It passes a message with any other To: applications may write what
// they like. The sender's rights are not looked at, so the patterns are what bounds
// where a sender to the entity can have messages put.
type addressee struct {
	b       *Broker
	allowed []string // folded; * is any text
}

func newAddressee(b *Broker, allowed []string) addressee {
	r := addressee{b: b}
	for _, pattern := range allowed {
		r.allowed = append(r.allowed, core.FoldName(pattern))
	}
	return r
}

// Route implements core.Router.
func (r addressee) Route(ctx context.Context, at core.Stage, ms []*core.Message) ([]core.Verdict, error) {
	verdicts := make([]core.Verdict, len(ms))
	found := map[string][]string{}
	for i, m := range ms {
		routes, known := found[m.To]
		if !known {
			to, err := r.find(ctx, m.To)
			if err != nil {
				return nil, err
			}
			if to != "" && core.FoldName(to) != core.FoldName(at.Entity) {
				routes = []string{to}
			}
			found[m.To] = routes
		}
		verdicts[i].Routes = routes
	}
	return verdicts, nil
}

// find returns the name of the queue or topic that to is, or "".
func (r addressee) find(ctx context.Context, to string) (string, error) {
	a, err := core.ParseAddress(to)
	if err != nil || a.Sub != core.Main || a.Management || !r.allows(core.FoldName(a.Entity)) {
		return "", nil
	}
	e, err := r.b.entity(ctx, a.Entity)
	switch {
	case core.CodeOf(err) == core.NotFound:
		return "", nil
	case err != nil:
		return "", err
	}
	v := e.current.Load()
	if v.Kind == core.Subscription {
		return "", nil
	}
	return v.Name, nil
}

func (r addressee) allows(name string) bool {
	return slices.ContainsFunc(r.allowed, func(pattern string) bool { return fitsPattern(pattern, name) })
}

// Deterministic implements core.Router: entities come and go.
func (addressee) Deterministic() bool { return false }
