package pipeline

import (
	"context"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

type findFunc func(ctx context.Context, name string) (*entity.View, error)

// toRouter follows the To property to a queue or topic whose name matches one of the patterns. Any
// other To passes, because applications may use it for other purposes. Only the patterns limit
// where a sender can put messages: the sender's rights on that entity are not checked.
type toRouter struct {
	find    findFunc
	allowed []string
}

func (r toRouter) Route(ctx context.Context, at core.Stage, ms []*core.Message) ([]core.Verdict, error) {
	verdicts := make([]core.Verdict, len(ms))
	found := map[string][]string{}
	for i, m := range ms {
		routes, known := found[m.To]
		if !known {
			to, err := r.target(ctx, m.To)
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

// target returns the queue or topic in a To property, or "" if toRouter does not follow it.
func (r toRouter) target(ctx context.Context, to string) (string, error) {
	a, err := core.ParseAddress(to)
	fits := func(pattern string) bool { return entity.FitsPattern(core.FoldName(pattern), core.FoldName(a.Entity)) }
	if err != nil || a.Sub != core.Main || a.Management || !slices.ContainsFunc(r.allowed, fits) {
		return "", nil
	}
	v, err := r.find(ctx, a.Entity)
	switch {
	case core.CodeOf(err) == core.NotFound:
		return "", nil
	case err != nil:
		return "", err
	case v.Kind == core.Subscription:
		return "", nil
	}
	return v.Name, nil
}
