package broker

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// checkForwarding checks where changed settings of an entity forward to; before is zero for a new
// entity. The destination must exist, and the identity must be allowed to send there. A
// subscription that forwards is not deleted when idle.
func (b *Broker) checkForwarding(ctx context.Context, id core.Identity, ent *core.Entity, old *core.Settings) error {
	s := &ent.Settings
	if old.RequiresSession && (s.ForwardTo == "") != (old.ForwardTo == "") {
		return core.Refuse(core.InvalidArgument, "ForwardTo cannot be set or removed on the %s '%s', which requires sessions: create it anew.", ent.Kind, ent.Name)
	}
	for _, f := range [...]struct {
		setting string
		to      *string
		was     string
	}{
		{"ForwardTo", &s.ForwardTo, old.ForwardTo},
		{"ForwardDeadLetteredMessagesTo", &s.ForwardDeadLetteredMessagesTo, old.ForwardDeadLetteredMessagesTo},
	} {
		if *f.to == "" || *f.to == f.was {
			continue
		}
		prefix, host, path := core.SplitAuthority(*f.to)
		if *f.to = prefix + path; *f.to == f.was {
			continue
		}
		if host != "" && !b.isOwnHost(ctx, host) {
			return core.Refuse(core.InvalidArgument, "%s is '%s': the host is no name of this namespace, so its entities cannot be reached from here.", f.setting, *f.to)
		}
		if err := b.checkDestination(ctx, id, f.setting, *f.to); err != nil {
			return err
		}
	}
	if s.ForwardTo != "" && ent.Kind == core.Subscription {
		s.AutoDeleteOnIdle = core.Forever
	}
	return nil
}

// isOwnHost reports whether a folded host names this namespace: an address, a name of the namespace
// or the gateway, or a name by which the peer has called the gateway.
func (b *Broker) isOwnHost(ctx context.Context, host string) bool {
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" || b.options.Answers == nil || b.options.Answers(host) {
		return true
	}
	return slices.ContainsFunc(core.HostsOf(ctx), func(called string) bool { return core.FoldHost(called) == host })
}

func (b *Broker) checkDestination(ctx context.Context, id core.Identity, setting, to string) error {
	path := core.ResourcePath(to)
	if remote, entity, ok := core.SplitRemote(to); ok {
		if err := b.remotes.check(setting, to, remote, entity); err != nil {
			return err
		}
		return id.Check(core.Send, path, time.Now()) // the right on the whole namespace
	}
	dest, err := b.stored(ctx, path)
	switch {
	case core.CodeOf(err) == core.NotFound:
		return core.Refuse(core.InvalidArgument, "%s is '%s': this namespace has no queue or topic of that name.", setting, to)
	case err != nil:
		return err
	case dest.Kind == core.Subscription:
		return core.Refuse(core.InvalidArgument, "%s is '%s', which is a subscription: forward to a queue or topic.", setting, to)
	}
	return id.Check(core.Send, dest.Name, time.Now())
}

// forwardPath is the path that a sub-queue is forwarded to; "" where it is not.
func forwardPath(s *core.Settings, sub core.SubQueue) string {
	switch sub {
	case core.Main:
		return core.ResourcePath(s.ForwardTo)
	case core.DeadLetter:
		return core.ResourcePath(s.ForwardDeadLetteredMessagesTo)
	default:
		return ""
	}
}

// forwardTarget is forwardPath with folded names, except for the name of an entity at a remote,
// which may be case-sensitive.
func forwardTarget(s *core.Settings, sub core.SubQueue) string {
	to := forwardPath(s, sub)
	if remote, entity, ok := core.SplitRemote(to); ok {
		return core.FoldName(remote) + ":" + entity
	}
	return core.FoldName(to)
}
