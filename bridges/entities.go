package bridges

import (
	"context"
	"iter"

	"github.com/crosstown-mq/crosstown/core"
)

// Entities returns n entities of l, after the first skip. It returns fewer only at the end of the
// list, because clients take a short page for the last one. admin may return short pages earlier.
func Entities(ctx context.Context, admin core.Admin, id core.Identity, l core.Listing, skip, n int) (all []core.Entity, counts []core.Runtime, err error) {
	for len(all) < n {
		es, rs, err := admin.Entities(ctx, id, l, skip+len(all), n-len(all))
		if err != nil {
			return nil, nil, err
		}
		if len(es) == 0 {
			break
		}
		all, counts = append(all, es...), append(counts, rs...)
	}
	return all, counts, nil
}

// Destinations yields, by setting, the forwarding destinations in after that before lacks. A client
// that sets a destination needs the right Send on it.
func Destinations(before, after *core.Settings) iter.Seq2[string, string] {
	return func(yield func(setting, entity string) bool) {
		for _, f := range [...]struct{ setting, before, after string }{
			{"ForwardTo", before.ForwardTo, after.ForwardTo},
			{"ForwardDeadLetteredMessagesTo", before.ForwardDeadLetteredMessagesTo, after.ForwardDeadLetteredMessagesTo},
		} {
			to := core.ResourcePath(f.after)
			if to != "" && core.FoldName(to) != core.FoldName(core.ResourcePath(f.before)) && !yield(f.setting, to) {
				return
			}
		}
	}
}
