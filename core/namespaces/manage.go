package namespaces

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// DefaultPolicy is the policy, with all rights, of a namespace that is created without policies.
const DefaultPolicy = "RootManageSharedAccessKey"

const changeTries = 5

type About struct {
	core.Namespace
	// Fixed namespaces, from the configuration, can be reset, but not changed or deleted.
	Fixed       bool
	Own         bool
	Connections int
}

func (m *Member) about() About {
	m.mu.Lock()
	defer m.mu.Unlock()
	return About{Namespace: m.record.Load().Namespace, Fixed: m.fixed, Own: m == m.d.own, Connections: len(m.connections)}
}

// Create adds a namespace with n's Name, Hosts, Policies, Quotas and Clock to the registry.
// Policies without a key get random keys. Without policies, it gets DefaultPolicy.
func (d *Directory) Create(ctx context.Context, n core.Namespace) (About, error) {
	if err := CheckName(n.Name); err != nil {
		return About{}, err
	}
	if l := d.o.Limits; l.Tier != "" && (len(n.Name) < l.MinNamespaceName || len(n.Name) > l.MaxNamespaceName) {
		return About{}, core.Refuse(core.InvalidArgument, "The namespace name '%s' has %d characters: in the %s tier it must have %d to %d.", n.Name, len(n.Name), l.Tier, l.MinNamespaceName, l.MaxNamespaceName)
	}
	if d.named(n.Name) != nil {
		return About{}, exists(n.Name)
	}
	now := d.o.Now()
	n.ID, n.CreatedAt, n.ModifiedAt = core.NewIncarnation(), now, now
	n.Policies = slices.Clone(n.Policies)
	if len(n.Policies) == 0 {
		n.Policies = []core.AccessRule{{Name: DefaultPolicy, Rights: core.AllRights}}
	}
	for i := range n.Policies {
		settle(&n.Policies[i], nil)
		n.Policies[i].CreatedAt, n.Policies[i].ModifiedAt = now, now
	}
	if err := d.check(&n); err != nil {
		return About{}, err
	}
	losses := d.lost()
	made, err := d.o.Registry.CreateNamespace(ctx, n)
	if core.CodeOf(err) == core.AlreadyExists {
		return About{}, exists(n.Name)
	}
	if err != nil {
		return About{}, err
	}
	d.log.Info("namespace created", "namespace", made.Name)
	m := d.apply(made)
	d.rereadAfterLoss(losses, made.Name)
	if m == nil || m.record.Load().ID != made.ID {
		return About{Namespace: made}, nil
	}
	return m.about(), nil
}

func exists(name string) error {
	return core.Refuse(core.AlreadyExists, "The namespace '%s' already exists.", name)
}

// newKey returns a key as Service Bus makes them: 32 random bytes in base64.
func newKey() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.StdEncoding.EncodeToString(b[:])
}

func (d *Directory) Describe(ctx context.Context, name string) (About, error) {
	m, err := d.find(ctx, name)
	if err != nil {
		return About{}, err
	}
	return m.about(), nil
}

// find reads the registry for an unknown name: another gateway may have just created the namespace.
func (d *Directory) find(ctx context.Context, name string) (*Member, error) {
	m := d.named(name)
	if m == nil {
		if err := d.read(ctx, name); err != nil {
			return nil, err
		}
		m = d.named(name)
	}
	if m == nil {
		return nil, missing(name)
	}
	return m, nil
}

func missing(name string) error {
	return core.Refuse(core.NotFound, "The namespace '%.80s' does not exist.", name)
}

// All returns, by lower-case name, up to top namespaces with names above the parameter after.
func (d *Directory) All(after string, top int) []About {
	var names []string
	d.mu.RLock()
	for name := range d.byName {
		if name > core.FoldName(after) {
			names = append(names, name)
		}
	}
	d.mu.RUnlock()
	slices.Sort(names)
	var all []About
	for _, name := range names {
		if m := d.named(name); m != nil && len(all) < top {
			all = append(all, m.about())
		}
	}
	return all
}

// Change calls edit on the stored namespace, again if another change comes first, and stores the
// result. A policy without a key keeps its stored key, or gets a random one.
func (d *Directory) Change(ctx context.Context, name string, edit func(*core.Namespace) error) (About, error) {
	for range changeTries {
		m, err := d.find(ctx, name)
		if err != nil {
			return About{}, err
		}
		if m.fixed {
			return About{}, fixed(m.record.Load().Name)
		}
		about, err := d.change(ctx, m, edit)
		if core.CodeOf(err) != core.Conflict {
			return about, err
		}
		if err := d.read(ctx, name); err != nil {
			return About{}, err
		}
	}
	return About{}, core.Refuse(core.Conflict, "Another client is changing the namespace '%s'. Try again.", name)
}

func fixed(name string) error {
	return core.Refuse(core.NotAllowed, "The namespace '%s' is in the gateway's configuration: change it there, and start the gateway again.", name)
}

func (d *Directory) change(ctx context.Context, m *Member, edit func(*core.Namespace) error) (About, error) {
	old := m.record.Load().Namespace
	n := old
	n.Hosts, n.Policies = slices.Clone(old.Hosts), slices.Clone(old.Policies)
	if err := edit(&n); err != nil {
		return About{}, err
	}
	now := d.o.Now()
	n.ModifiedAt = now
	for i := range n.Policies {
		settle(&n.Policies[i], old.Policies)
		if p := &n.Policies[i]; !slices.Contains(old.Policies, *p) {
			p.ModifiedAt = now
			if p.CreatedAt.IsZero() {
				p.CreatedAt = now
			}
		}
	}
	if err := d.check(&n); err != nil {
		return About{}, err
	}
	changed, err := d.o.Registry.UpdateNamespace(ctx, n)
	if core.CodeOf(err) == core.NotFound {
		d.remove(m)
		return About{}, missing(n.Name)
	}
	if err != nil {
		return About{}, err
	}
	d.update(m, changed)
	return m.about(), nil
}

func settle(p *core.AccessRule, before []core.AccessRule) {
	i := slices.IndexFunc(before, func(o core.AccessRule) bool { return o.Name == p.Name })
	if i >= 0 {
		p.CreatedAt = before[i].CreatedAt
		if p.ModifiedAt.IsZero() {
			p.ModifiedAt = before[i].ModifiedAt
		}
	}
	switch {
	case p.PrimaryKey != "":
	case i >= 0:
		p.PrimaryKey, p.SecondaryKey = before[i].PrimaryKey, before[i].SecondaryKey
	default:
		p.PrimaryKey, p.SecondaryKey = newKey(), newKey()
	}
}

// Rotate gives a policy a new primary key. The old one becomes the secondary key, and the old
// secondary key is invalid. If the namespace is deleted and created again, nothing changes.
func (d *Directory) Rotate(ctx context.Context, name, policy string) (About, error) {
	id := ""
	return d.Change(ctx, name, func(n *core.Namespace) error {
		if id == "" {
			id = n.ID
		}
		if n.ID != id {
			return gone(n.Name)
		}
		i := slices.IndexFunc(n.Policies, func(p core.AccessRule) bool { return p.Name == policy })
		if i < 0 {
			return core.Refuse(core.NotFound, "The namespace '%s' has no policy '%.80s'.", n.Name, policy)
		}
		p := &n.Policies[i]
		p.PrimaryKey, p.SecondaryKey = newKey(), p.PrimaryKey
		return nil
	})
}

func (d *Directory) ResetNamed(ctx context.Context, name string) error {
	m, err := d.find(ctx, name)
	if err != nil {
		return err
	}
	s, err := m.serve(ctx)
	if err != nil {
		return err
	}
	r := m.record.Load()
	return s.Admin.Reset(ctx, core.Identity{{Namespace: r.Name, NamespaceID: r.ID, Policy: "operator", Rights: core.AllRights}})
}

// Delete also closes the connections of the namespace's clients.
func (d *Directory) Delete(ctx context.Context, name string) error {
	m, err := d.find(ctx, name)
	if err != nil {
		return err
	}
	if m.fixed {
		return fixed(m.record.Load().Name)
	}
	err = d.o.Registry.DeleteNamespace(ctx, name)
	if err != nil && core.CodeOf(err) != core.NotFound {
		return err
	}
	d.remove(m)
	if err != nil {
		return missing(name)
	}
	return nil
}

func (d *Directory) Clock(ctx context.Context, name string) (c core.VirtualClock, now time.Time, err error) {
	m, err := d.find(ctx, name)
	if err != nil {
		return c, now, err
	}
	r := m.record.Load()
	if r.Clock == nil {
		return c, now, noClock(r.Name)
	}
	return *r.Clock, d.o.Now(), nil
}

func noClock(name string) error {
	return core.Refuse(core.NotAllowed, "The namespace '%s' uses real time: use a namespace that was created with virtual time.", name)
}

// MoveClock moves the virtual clock of a namespace. It returns when everything that is then due is
// done, as far as this gateway knows it; other gateways follow a moment later. move gets the clock
// and the store's time. It is called again if another change of the namespace comes first.
func (d *Directory) MoveClock(ctx context.Context, name string, move func(c core.VirtualClock, now time.Time) (core.VirtualClock, error)) error {
	m, err := d.find(ctx, name)
	if err != nil {
		return err
	}
	edit := func(n *core.Namespace) error {
		if n.Clock == nil {
			return noClock(n.Name)
		}
		moved, err := move(*n.Clock, d.o.Now())
		n.Clock = &moved
		return err
	}
	if err := d.edit(ctx, m, edit); err != nil {
		return err
	}
	return m.runDue(ctx)
}

// edit changes a namespace. A change of a configured one is lost when this process ends.
func (d *Directory) edit(ctx context.Context, m *Member, edit func(*core.Namespace) error) error {
	if !m.fixed {
		_, err := d.Change(ctx, m.record.Load().Name, edit)
		return err
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	n := m.record.Load().Namespace
	if err := edit(&n); err != nil {
		return err
	}
	n.Revision++
	d.update(m, n)
	return nil
}

func (m *Member) runDue(ctx context.Context) error {
	if s := m.opened.Load(); s != nil && s.RunDue != nil {
		return s.RunDue(ctx)
	}
	return nil
}
