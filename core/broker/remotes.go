package broker

import (
	"maps"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

// remotes are the other brokers that messages can be forwarded to, by folded name.
type remotes map[string]core.Remote

func newRemotes(given map[string]core.Remote) remotes {
	all := make(remotes, len(given))
	for name, r := range given {
		all[core.FoldName(name)] = r
	}
	return all
}

// check refuses a destination at a remote that there is none of, or that names no entity.
func (r remotes) check(setting, to, remote, entity string) error {
	switch {
	case entity == "":
		return core.Refuse(core.InvalidArgument, "%s is '%s': write REMOTE:ENTITY.", setting, to)
	case r[core.FoldName(remote)] != nil:
		return nil
	case len(r) == 0:
		return core.Refuse(core.InvalidArgument, "%s is '%s': the gateway has no remotes. Its configuration can name some.", setting, to)
	}
	return core.Refuse(core.InvalidArgument, "%s is '%s': the gateway has no remote of that name. It has %s.",
		setting, to, strings.Join(slices.Sorted(maps.Keys(r)), ", "))
}

// watch has pumps try again whose remote is back. stop ends that.
func (r remotes) watch(pumps *pumps) (stop func()) {
	var stops []func()
	for name, remote := range r {
		stops = append(stops, remote.Watch(func() { pumps.back(name) }))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// back has those try again at once who wait for the remote of the folded name,
// or whose messages may.
func (s *pumps) back(remote string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.byKey {
		if p.key.sub == core.Transfer || p.remote == remote {
			for _, l := range p.lanes {
				l.hurry()
			}
		}
	}
}
