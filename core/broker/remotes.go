package broker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

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
func (r remotes) watch(forwarders *forwarders) (stop func()) {
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
func (s *forwarders) retryRemote(remote string) {
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

// Forget drops the Transit.Keys of messages that were sent to a queue or topic,
// once they cannot come again.
func (b *Broker) Forget(ctx context.Context, name string, keys []string) error {
	e, err := b.entity(ctx, name)
	if err != nil {
		return err
	}
	for _, f := range e.current.Load().partitions[core.Main] {
		if err := b.store.Forget(ctx, f, keys); err != nil {
			return err
		}
	}
	return nil
}

// Export is an entity whose messages are forwarded to a remote.
type Export struct {
	Entity      string // a queue, or a subscription
	DeadLetters bool   // its dead letters are forwarded
	Remote, To  string
	Waiting     int64     // messages that are not there yet
	Oldest      time.Time // when the first of them was enqueued; zero: there is none, or it is not known
}

// Exports counts the messages that wait for remotes in the entities that forward to them.
func (b *Broker) Exports(ctx context.Context) ([]Export, error) {
	all, ents, err := b.exports(ctx)
	if err != nil {
		return nil, err
	}
	counts := b.countEntities(ctx, ents...)
	for i := range all {
		h, err := b.holding(ctx, &ents[i], &counts[i])
		if err != nil {
			return nil, b.refusal(err, &ents[i])
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

// exports are the entities that forward to remotes, not counted.
func (b *Broker) exports(ctx context.Context) (all []Export, ents []core.Entity, err error) {
	err = b.walk(ctx, func(ent *core.Entity) (gone bool) {
		for _, sub := range []core.SubQueue{core.Main, core.DeadLetter} {
			if remote, to, ok := core.SplitRemote(forwardPath(&ent.Settings, sub)); ok {
				all = append(all, Export{Entity: ent.Name, DeadLetters: sub == core.DeadLetter, Remote: remote, To: to})
				ents = append(ents, *ent)
			}
		}
		return false
	})
	return all, ents, err
}

// ForwardedTo are the entities of a remote that entities forward to.
func (b *Broker) ForwardedTo(ctx context.Context, remote string) (entities []string, err error) {
	all, _, err := b.exports(ctx)
	for i := range all {
		if core.FoldName(all[i].Remote) == core.FoldName(remote) && !slices.Contains(entities, all[i].To) {
			entities = append(entities, all[i].To)
		}
	}
	return entities, err
}
