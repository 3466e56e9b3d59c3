package broker

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/audit"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/broker/internal/forward"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pipeline"
)

// forForwarders changes the type of a function's result. For a missing entity the result is a nil
// interface, not an interface with a nil *entry.
func forForwarders(find func(context.Context, string) (*entry, error)) func(context.Context, string) (forward.Entity, error) {
	return func(ctx context.Context, name string) (forward.Entity, error) {
		e, err := find(ctx, name)
		if err != nil {
			return nil, err
		}
		return e, nil
	}
}

func (e *entry) Key() string { return e.key }

func (e *entry) Counters() *entity.Counters { return &e.traffic }

func (e *entry) Audit() *audit.Writer { return e.audit }

func (e *entry) Judge(ctx context.Context, v *entity.View, groups [][]*core.Message) []pipeline.Result {
	if e.pipeline.IsEmpty() {
		return nil
	}
	return e.askPipeline(ctx, v, groups, false)
}

// checkForwarding checks the destinations in ent's settings that differ from those in old, which is
// zero for a new entity. A destination must exist, and the identity must be allowed to send there.
// checkForwarding also sets AutoDeleteOnIdle to Forever for a subscription that forwards.
func (b *Broker) checkForwarding(ctx context.Context, id core.Identity, ent *core.Entity, old *core.Settings) error {
	s := &ent.Settings
	if old.RequiresSession && (s.ForwardTo == "") != (old.ForwardTo == "") {
		return core.Refuse(core.InvalidArgument, "ForwardTo cannot be set or removed on the %s '%s', which requires sessions: delete the %[1]s and create it again.", ent.Kind, ent.Name)
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
			return core.Refuse(core.InvalidArgument, "%s is '%s', whose host does not belong to this namespace: forward to an entity of this namespace.", f.setting, *f.to)
		}
		if core.FoldName(core.ResourcePath(*f.to)) == core.FoldName(core.ResourcePath(f.was)) {
			continue // only the spelling differs
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

// isOwnHost reports whether a host, in lower case, means this gateway: an IP address, localhost, a
// name of the namespace or the gateway, or a name by which the client has called the gateway.
func (b *Broker) isOwnHost(ctx context.Context, host string) bool {
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" || b.options.Answers == nil || b.options.Answers(host) {
		return true
	}
	return slices.ContainsFunc(core.HostsOf(ctx), func(called string) bool { return core.FoldHost(called) == host })
}

func (b *Broker) checkDestination(ctx context.Context, id core.Identity, setting, to string) error {
	path := core.ResourcePath(to)
	if remote, entity, ok := core.SplitRemote(to); ok {
		if err := b.forwarders.CheckRemote(setting, to, remote, entity); err != nil {
			return err
		}
		return id.Check(core.Send, path, time.Now()) // only a right on the whole namespace covers the path of a destination at a remote
	}
	dest, err := b.stored(ctx, path)
	switch {
	case core.CodeOf(err) == core.NotFound:
		return core.Refuse(core.InvalidArgument, "%s is '%s', which is not a queue or topic of this namespace: create it first.", setting, to)
	case err != nil:
		return err
	case dest.Kind == core.Subscription:
		return core.Refuse(core.InvalidArgument, "%s is '%s', which is a subscription: specify a queue or topic.", setting, to)
	}
	return id.Check(core.Send, dest.Name, time.Now())
}

// Forget removes the deduplication keys of moves (Transit.Key) that nobody will repeat.
func (b *Broker) Forget(ctx context.Context, name string, keys []string) error {
	v, err := b.find(ctx, name)
	if err != nil {
		return err
	}
	for _, f := range v.Queues[core.Main] {
		if err := f.Forget(ctx, keys); err != nil {
			return err
		}
	}
	return nil
}

type Export struct {
	Entity      string `json:"entity"`
	DeadLetters bool   `json:"deadLetters,omitzero"` // the dead letters are forwarded, not the messages
	Remote      string `json:"-"`
	To          string `json:"to"`
	Waiting     int64  `json:"messages"`
	// Oldest is when the first waiting message was enqueued; zero: unknown, or none waits.
	Oldest time.Time `json:"oldest,omitzero"`
}

func (b *Broker) Exports(ctx context.Context) ([]Export, error) {
	all, ents, err := b.exports(ctx)
	if err != nil {
		return nil, err
	}
	counts := b.countEntities(ctx, ents...)
	for i := range all {
		h, err := b.holding(ctx, &ents[i], &counts[i])
		if err != nil {
			return nil, b.ns.Refusal(err, &ents[i])
		}
		sub := core.Main
		if all[i].DeadLetters {
			sub = core.DeadLetter
		} else {
			all[i].Oldest = h.Oldest
		}
		all[i].Waiting = h.Counts[sub].Ready + h.Counts[sub].Locked
	}
	return all, nil
}

// exports does not count the messages.
func (b *Broker) exports(ctx context.Context) (all []Export, ents []core.Entity, err error) {
	err = b.walk(ctx, func(ent *core.Entity) {
		for _, sub := range []core.SubQueue{core.Main, core.DeadLetter} {
			if remote, to, ok := core.SplitRemote(entity.ForwardPath(&ent.Settings, sub)); ok {
				all = append(all, Export{Entity: ent.Name, DeadLetters: sub == core.DeadLetter, Remote: remote, To: to})
				ents = append(ents, *ent)
			}
		}
	})
	return all, ents, err
}

func (b *Broker) ForwardedTo(ctx context.Context, remote string) (entities []string, err error) {
	all, _, err := b.exports(ctx)
	for i := range all {
		if core.FoldName(all[i].Remote) == core.FoldName(remote) && !slices.Contains(entities, all[i].To) {
			entities = append(entities, all[i].To)
		}
	}
	return entities, err
}
