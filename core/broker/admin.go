package broker

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const maxTop = 1000

func authorize(id core.Identity, path string) error {
	return id.Check(core.Manage, path, time.Now())
}

func managed(id core.Identity, name string) (path string, err error) {
	path = core.ResourcePath(name)
	return path, authorize(id, path)
}

func (b *Broker) Entity(ctx context.Context, id core.Identity, name string) (core.Entity, core.Runtime, error) {
	name, err := managed(id, name)
	if err != nil {
		return core.Entity{}, core.Runtime{}, err
	}
	ent, err := b.stored(ctx, name)
	if err != nil {
		return core.Entity{}, core.Runtime{}, err
	}
	return withReportedSize(b.withUse(ent)), b.runtimes(ctx, ent)[0], nil
}

func (b *Broker) stored(ctx context.Context, name string) (core.Entity, error) {
	ent, err := b.store.Entity(ctx, b.ns.ID, name)
	if err == nil && ent.Kind == core.Schedule {
		err = core.NotFound
	}
	return ent, b.ns.Refusal(err, &core.Entity{Name: name})
}

func (b *Broker) Entities(ctx context.Context, id core.Identity, l core.Listing, skip, top int) ([]core.Entity, []core.Runtime, error) {
	path := ""
	if l.Kind == core.Subscription {
		l.Topic = core.ResourcePath(l.Topic)
		path = l.Topic
	}
	if err := authorize(id, path); err != nil {
		return nil, nil, err
	}
	if l.Kind == core.Subscription {
		topic, err := b.stored(ctx, l.Topic)
		if err != nil {
			return nil, nil, err
		}
		if topic.Kind != core.Topic {
			return nil, nil, b.ns.NotFound(l.Topic)
		}
		l.Topic = topic.Name
	}
	page, err := b.store.Entities(ctx, b.ns.ID, l, max(skip, 0), min(max(top, 0), maxTop))
	if err != nil {
		return nil, nil, b.ns.Refusal(err, &core.Entity{})
	}
	runtimes := b.runtimes(ctx, page...)
	for i := range page {
		page[i] = withReportedSize(b.withUse(page[i]))
	}
	return page, runtimes, nil
}

func (b *Broker) UpdateEntity(ctx context.Context, id core.Identity, name string, s core.Settings) (core.Entity, error) {
	name, err := managed(id, name)
	if err != nil {
		return core.Entity{}, err
	}
	for range 2 {
		old, err := b.stored(ctx, name)
		if err != nil {
			return core.Entity{}, err
		}
		ent := old
		ent.Settings = s
		ent.Settings.AuthorizationRules = datedRules(s.AuthorizationRules, old.Settings.AuthorizationRules, b.store.Now())
		if err := b.fitUpdate(ctx, id, &old, &ent); err != nil {
			return core.Entity{}, err
		}
		ent.UpdatedAt = b.store.Now()
		read := time.Now()
		made, err := b.store.UpdateEntity(ctx, ent, b.quotas())
		switch core.CodeOf(err) {
		case "":
			_, err = b.keep(made, read)
			return withReportedSize(made), err
		case core.Conflict:
		case core.QuotaExceeded:
			return core.Entity{}, b.quotaRefusal(ctx, &ent)
		default:
			return core.Entity{}, b.ns.Refusal(err, &old)
		}
	}
	return core.Entity{}, core.Refuse(core.Conflict, "Another conflicting operation is in progress on '%s'. Please retry later. ", name)
}

// datedRules sets the times of authorization rules. A rule whose name is in before keeps its times.
// The times in rules are ignored, because clients send back what they have read.
func datedRules(rules, before []core.AccessRule, now time.Time) []core.AccessRule {
	dated := slices.Clone(rules)
	for i := range dated {
		r := &dated[i]
		r.CreatedAt, r.ModifiedAt = now, now
		was := slices.IndexFunc(before, func(o core.AccessRule) bool { return o.Name == r.Name })
		if was < 0 {
			continue
		}
		old := before[was]
		if r.CreatedAt = old.CreatedAt; old.CreatedAt.IsZero() { // an earlier version stored the time that the client had sent
			r.CreatedAt = now
		}
		if old.PrimaryKey == r.PrimaryKey && old.SecondaryKey == r.SecondaryKey && old.Rights == r.Rights && !old.ModifiedAt.IsZero() {
			r.ModifiedAt = old.ModifiedAt
		}
	}
	return dated
}

// fitUpdate completes the settings in ent. It refuses changes of settings that are fixed at
// creation, and any change while a partition does not answer.
func (b *Broker) fitUpdate(ctx context.Context, id core.Identity, old, ent *core.Entity) error {
	s := &ent.Settings
	s.Fit(ent.Kind)
	switch {
	case s.RequiresSession != old.Settings.RequiresSession:
		return unchangeable(ent.Kind, "RequiresSession")
	case s.RequiresDuplicateDetection != old.Settings.RequiresDuplicateDetection:
		return unchangeable(ent.Kind, "RequiresDuplicateDetection")
	case s.EnablePartitioning != old.Settings.EnablePartitioning:
		return core.Refuse(core.InvalidArgument, "Partitioning cannot be changed for %s. ", ent.Kind)
	}
	fitPartitioned(s, old.Settings.MaxSizeInMegabytes)
	b.fitMessageSize(s, old.Settings.MaxMessageSizeInKilobytes)
	if err := b.checkSettings(s.Differing(&old.Settings)); err != nil {
		return err
	}
	if err := b.checkForwarding(ctx, id, ent, &old.Settings); err != nil {
		return err
	}
	return b.healthy(ctx, old)
}

func unchangeable(k core.Kind, setting string) error {
	return core.Refuse(core.InvalidArgument, "The value for the %s property of an existing %s cannot be changed. ", setting, k)
}

func (b *Broker) DeleteEntity(ctx context.Context, id core.Identity, name string) error {
	name, err := managed(id, name)
	if err != nil {
		return err
	}
	ent, err := b.stored(ctx, name)
	if err != nil {
		return err
	}
	if err := b.healthy(ctx, &ent); err != nil {
		return err
	}
	if err := b.store.DeleteEntity(ctx, b.ns.ID, ent.Name); err != nil {
		return b.ns.Refusal(err, &ent)
	}
	b.log.Info("entity deleted", "entity", ent.Name)
	b.forgetDeleted(&ent)
	return nil
}

// Namespace describes the namespace. Its CreatedAt is when this gateway started, because the store
// has no creation time of a configured namespace.
func (b *Broker) Namespace(_ context.Context, id core.Identity) (core.NamespaceInfo, error) {
	if err := authorize(id, ""); err != nil {
		return core.NamespaceInfo{}, err
	}
	l := &b.options.Limits
	return core.NamespaceInfo{Name: b.ns.Name, Tier: cmp.Or(l.Tier, "Standard"), MessagingUnits: l.MessagingUnits, CreatedAt: b.created, ModifiedAt: b.created}, nil
}
