package forward

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

// check refuses a destination whose remote is not configured, or that names no entity.
func (r remotes) check(setting, to, remote, entity string) error {
	switch {
	case entity == "":
		return core.Refuse(core.InvalidArgument, "%s is '%s': write REMOTE:ENTITY.", setting, to)
	case r[core.FoldName(remote)] != nil:
		return nil
	case len(r) == 0:
		return core.Refuse(core.InvalidArgument, "%s is '%s': the namespace has no remotes. The gateway's configuration names them.", setting, to)
	}
	return core.Refuse(core.InvalidArgument, "%s is '%s': the namespace has no remote of that name. It has %s.",
		setting, to, strings.Join(slices.Sorted(maps.Keys(r)), ", "))
}

// watch retries forwarders when their remote is back. stop ends that.
func (r remotes) watch(forwarders *Forwarders) (stop func()) {
	var stops []func()
	for name, remote := range r {
		stops = append(stops, remote.Watch(func() { forwarders.retryRemote(name) }))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// retryRemote wakes the forwarders that wait for the remote of the folded name, or whose messages
// may.
func (s *Forwarders) retryRemote(remote string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.byKey {
		if f.key.sub == core.Transfer || f.remote == remote {
			for _, pf := range f.partitions {
				pf.retry()
			}
		}
	}
}

// CheckRemote refuses a destination whose remote is not configured, or that names no entity.
func (s *Forwarders) CheckRemote(setting, to, remote, entity string) error {
	return s.remotes.check(setting, to, remote, entity)
}
