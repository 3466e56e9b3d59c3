package broker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// maxTop bounds a page of a list.
const maxTop = 1000

// authorize checks for Manage on a path; "" is the namespace.
func authorize(id core.Identity, path string) error {
	return id.Check(core.Manage, path, time.Now())
}

// CreateQueue implements core.Admin.
func (b *Broker) CreateQueue(ctx context.Context, id core.Identity, name string, s core.Settings) (core.Entity, error) {
	if err := authorize(id, name); err != nil {
		return core.Entity{}, err
	}
	if err := core.ValidateName(name); err != nil {
		return core.Entity{}, err
	}
	if err := offered(&s); err != nil {
		return core.Entity{}, err
	}
	fitPartitioned(&s, 0)
	if err := s.Validate(); err != nil {
		return core.Entity{}, err
	}
	now := b.store.Now()
	s.AuthorizationRules = slices.Clone(s.AuthorizationRules)
	stampRules(s.AuthorizationRules, nil, now)
	ent := core.Entity{
		Namespace: b.namespace, Name: name, ID: newEntityID(), Partitions: 1,
		Settings: s, CreatedAt: now, UpdatedAt: now,
	}
	if s.EnablePartitioning {
		ent.Partitions = b.options.PartitionCount
	}
	read := time.Now()
	ent, err := b.store.CreateEntity(ctx, ent)
	switch {
	case core.CodeOf(err) == core.AlreadyExists:
		return core.Entity{}, core.Refuse(core.AlreadyExists, "Conflict. You're requesting an operation that isn't allowed in the resource's current state. The messaging entity '%s' already exists. To know more visit https://aka.ms/sbResourceMgrExceptions. ", name)
	case err != nil:
		return core.Entity{}, b.refusal(err, &core.Entity{Name: name})
	}
	b.log.Info("entity created", "entity", name, "partitions", ent.Partitions)
	if _, err := b.keep(ent, read); err != nil {
		return core.Entity{}, err
	}
	return reported(ent), nil
}

// offered refuses settings of features that this version does not have.
func offered(s *core.Settings) error {
	for _, f := range [...]struct {
		name string
		on   bool
	}{
		{"ForwardTo", s.ForwardTo != ""},
		{"ForwardDeadLetteredMessagesTo", s.ForwardDeadLetteredMessagesTo != ""},
	} {
		if f.on {
			return core.Refuse(core.NotImplemented, "%s is set, which this version of the server does not offer: leave it out.", f.name)
		}
	}
	return nil
}

// newEntityID is 80 random bits: nobody else's, ever.
func newEntityID() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// stampRules dates the rules whose client did not; those of a known name keep
// when they were made.
func stampRules(rules, old []core.AccessRule, now time.Time) {
	for i := range rules {
		r := &rules[i]
		if r.ModifiedAt.IsZero() {
			r.ModifiedAt = now
		}
		if !r.CreatedAt.IsZero() {
			continue
		}
		r.CreatedAt = now
		for _, o := range old {
			if o.Name == r.Name {
				r.CreatedAt = o.CreatedAt
			}
		}
	}
}

// Entity implements core.Admin.
func (b *Broker) Entity(ctx context.Context, id core.Identity, name string) (core.Entity, core.Runtime, error) {
	if err := authorize(id, name); err != nil {
		return core.Entity{}, core.Runtime{}, err
	}
	ent, err := b.stored(ctx, name)
	if err != nil {
		return core.Entity{}, core.Runtime{}, err
	}
	return reported(ent), b.runtime(ctx, &ent), nil
}

// stored reads an entity past the cache.
func (b *Broker) stored(ctx context.Context, name string) (core.Entity, error) {
	ent, err := b.store.Entity(ctx, b.namespace, core.ResourcePath(name))
	if core.CodeOf(err) == core.NotFound {
		return core.Entity{}, b.notFound(name)
	}
	return ent, b.refusal(err, &core.Entity{Name: name})
}

// Entities implements core.Admin. At most 1000 are returned.
func (b *Broker) Entities(ctx context.Context, id core.Identity, l core.Listing, skip, top int) ([]core.Entity, []core.Runtime, error) {
	if err := authorize(id, ""); err != nil {
		return nil, nil, err
	}
	page, err := b.store.Entities(ctx, b.namespace, l, max(skip, 0), min(max(top, 0), maxTop))
	if err != nil {
		return nil, nil, b.refusal(err, &core.Entity{})
	}
	runtimes := make([]core.Runtime, len(page))
	inParallel(len(page), func(i int) { runtimes[i] = b.runtime(ctx, &page[i]) })
	for i := range page {
		page[i] = reported(page[i])
	}
	return page, runtimes, nil
}

// UpdateEntity implements core.Admin.
func (b *Broker) UpdateEntity(ctx context.Context, id core.Identity, name string, s core.Settings) (core.Entity, error) {
	if err := authorize(id, name); err != nil {
		return core.Entity{}, err
	}
	for range 2 {
		old, err := b.stored(ctx, name)
		if err != nil {
			return core.Entity{}, err
		}
		if err := b.checkUpdate(ctx, &old, &s); err != nil {
			return core.Entity{}, err
		}
		ent := old
		ent.Settings = s
		ent.Settings.AuthorizationRules = slices.Clone(s.AuthorizationRules)
		fitPartitioned(&ent.Settings, old.Settings.MaxSizeInMegabytes)
		if err := ent.Settings.Validate(); err != nil {
			return core.Entity{}, err
		}
		ent.UpdatedAt = b.store.Now()
		stampRules(ent.Settings.AuthorizationRules, old.Settings.AuthorizationRules, ent.UpdatedAt)
		read := time.Now()
		ent, err = b.store.UpdateEntity(ctx, ent)
		switch core.CodeOf(err) {
		case "":
			if _, err := b.keep(ent, read); err != nil {
				return core.Entity{}, err
			}
			return reported(ent), nil
		case core.Conflict:
		default:
			return core.Entity{}, b.refusal(err, &old)
		}
	}
	return core.Entity{}, core.Refuse(core.Conflict, "Another conflicting operation is in progress on '%s'. Please retry later. ", name)
}

// checkUpdate refuses to change what is fixed at creation, and to change
// anything while a partition does not answer.
func (b *Broker) checkUpdate(ctx context.Context, old *core.Entity, s *core.Settings) error {
	switch {
	case s.RequiresSession != old.Settings.RequiresSession:
		return unchangeable("RequiresSession")
	case s.RequiresDuplicateDetection != old.Settings.RequiresDuplicateDetection:
		return unchangeable("RequiresDuplicateDetection")
	case s.EnablePartitioning != old.Settings.EnablePartitioning:
		return core.Refuse(core.InvalidArgument, "Partitioning cannot be changed for Queue. ")
	}
	if err := offered(s); err != nil {
		return err
	}
	return b.healthy(ctx, old)
}

func unchangeable(setting string) error {
	return core.Refuse(core.InvalidArgument, "The value for the %s property of an existing Queue cannot be changed. ", setting)
}

// DeleteEntity implements core.Admin.
func (b *Broker) DeleteEntity(ctx context.Context, id core.Identity, name string) error {
	if err := authorize(id, name); err != nil {
		return err
	}
	ent, err := b.stored(ctx, name)
	if err != nil {
		return err
	}
	if err := b.healthy(ctx, &ent); err != nil {
		return err
	}
	if err := b.store.DeleteEntity(ctx, b.namespace, ent.Name); err != nil {
		return b.refusal(err, &ent)
	}
	b.log.Info("entity deleted", "entity", ent.Name)
	b.forgetDeleted(&ent)
	return nil
}

// Namespace implements core.Admin. A namespace is not stored: it exists since
// this gateway started.
func (b *Broker) Namespace(_ context.Context, id core.Identity) (core.NamespaceInfo, error) {
	if err := authorize(id, ""); err != nil {
		return core.NamespaceInfo{}, err
	}
	return core.NamespaceInfo{Name: b.namespace, CreatedAt: b.created, ModifiedAt: b.created}, nil
}
