package broker

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// checkForwarding looks at where an entity's settings forward to, as far as they
// are not what they were: the destination must exist, and who asks must be
// allowed to send there. An entity that forwards is not deleted when idle.
func (b *Broker) checkForwarding(ctx context.Context, id core.Identity, ent *core.Entity, old *core.Settings) error {
	s := &ent.Settings
	if s.ForwardTo != "" && s.RequiresSession {
		return core.Refuse(core.InvalidArgument, "ForwardTo is '%s': an entity that requires sessions cannot forward its messages.", s.ForwardTo)
	}
	for _, f := range [...]struct{ setting, to, was string }{
		{"ForwardTo", s.ForwardTo, old.ForwardTo},
		{"ForwardDeadLetteredMessagesTo", s.ForwardDeadLetteredMessagesTo, old.ForwardDeadLetteredMessagesTo},
	} {
		if f.to == "" || f.to == f.was {
			continue
		}
		if err := b.checkDestination(ctx, id, ent, f.setting, f.to); err != nil {
			return err
		}
	}
	if s.ForwardTo != "" {
		s.AutoDeleteOnIdle = core.Forever
	}
	return nil
}

func (b *Broker) checkDestination(ctx context.Context, id core.Identity, ent *core.Entity, setting, to string) error {
	path := core.ResourcePath(to)
	if remote, entity, ok := core.SplitRemote(to); ok {
		if err := b.remotes.check(setting, to, remote, entity); err != nil {
			return err
		}
		return id.Check(core.Send, path, time.Now()) // a grant for the whole namespace
	}
	if core.FoldName(path) == core.FoldName(ent.Name) {
		return core.Refuse(core.InvalidArgument, "%s is '%s': an entity cannot forward to itself.", setting, to)
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

// destination is the path that a source's sub-queue is forwarded to; "" where it is not.
func destination(s *core.Settings, sub core.SubQueue) string {
	switch sub {
	case core.Main:
		return core.ResourcePath(s.ForwardTo)
	case core.DeadLetter:
		return core.ResourcePath(s.ForwardDeadLetteredMessagesTo)
	default:
		return ""
	}
}

// target is destination with names folded: but for that of an entity at a remote,
// which may tell upper case from lower.
func target(s *core.Settings, sub core.SubQueue) string {
	to := destination(s, sub)
	if remote, entity, ok := core.SplitRemote(to); ok {
		return core.FoldName(remote) + ":" + entity
	}
	return core.FoldName(to)
}
