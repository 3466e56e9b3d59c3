package namespaces

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/intercept"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

type Served struct {
	intercept.Space
	// Grant, if not nil, may change or refuse the grant of an identity that was just proven.
	Grant func(context.Context, core.Grant) (core.Grant, error)
	// RunDue, after the namespace's time was moved, does everything that has become due. It is nil
	// if the namespace has real time, which nobody can move.
	RunDue func(context.Context) error
	// Close ends the namespace and waits for its end. It is called once.
	Close func()
}

// Options configure a Directory. Own, Registry, Open and Now are required.
type Options struct {
	// Own is the gateway's own namespace. Configured are the other namespaces of the configuration.
	// The ID of each is its name.
	Own        core.Namespace
	Configured []core.Namespace
	// Registry stores the namespaces that are created at run time.
	Registry core.Namespaces
	// Open begins to serve a namespace. For a namespace of the registry, it must not take long.
	Open func(ctx context.Context, n core.Namespace, m *Member) (Served, error)
	// Hosts are names of the gateway that identify no namespace.
	Hosts []string
	// Issuers verifies JSON web tokens for the gateway's own namespace. If nil, they are refused.
	Issuers auth.Issuers
	// PublicKeys are keys that everybody knows. A policy with one of them cannot be created.
	PublicKeys []string
	// Limits are the limits of the emulated tier; zero means none.
	Limits core.Limits
	// Now returns the store's time.
	Now    func() time.Time
	Logger *slog.Logger
}

// Directory implements core.Authority and intercept.Spaces for all namespaces of a gateway.
type Directory struct {
	o     Options
	log   *slog.Logger
	own   *Member
	fixed []*Member // the gateway's own, then the configured ones

	base   context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup // started only under mu, while the directory is open

	mu       sync.RWMutex
	closed   bool
	byID     map[string]*Member
	byName   map[string]*Member
	byHost   map[string]*Member   // by host, in the form of foldHost
	byPolicy map[string][]*Member // by the policy's name, without the gateway's own namespace; see recentlyUsed
	version  uint64
	losses   uint64 // how often a namespace was found deleted

	changing sync.Mutex
	pending  *wake.Names
	reading  singleflight.Group // reads of the registry for unknown credentials
	waiting  atomic.Int32       // clients that wait for such a read
	lastRead time.Time          // only the last function of reading uses it
	searches searches
	tries    atomic.Uint64
}

var (
	_ core.Authority   = (*Directory)(nil)
	_ intercept.Spaces = (*Directory)(nil)
)

// openPause is the pause between the openings of unused namespaces, to spread their periodic work.
const openPause = 10 * time.Millisecond

// Open opens the gateway's own namespace and the configured ones, and reads the registry. Then call
// Run, which closes the Directory when it ends.
func Open(ctx context.Context, o Options) (*Directory, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	d := &Directory{
		o: o, log: o.Logger,
		byID: map[string]*Member{}, byName: map[string]*Member{}, byHost: map[string]*Member{}, byPolicy: map[string][]*Member{},
		pending: wake.NewNames(),
	}
	d.base, d.cancel = context.WithCancel(context.Background())
	for _, n := range append([]core.Namespace{o.Own}, o.Configured...) {
		n.ID = n.Name
		m := newMember(d, n)
		if d.own == nil {
			d.own = m
		}
		d.fixed = append(d.fixed, m)
		d.enter(m)
	}
	for _, m := range d.fixed {
		if _, err := m.serve(ctx); err != nil {
			d.close()
			return nil, err
		}
	}
	if err := d.readAll(ctx); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// Run follows the registry and opens its namespaces until ctx ends. Then it closes all namespaces
// and returns nil. It must be called only once.
func (d *Directory) Run(ctx context.Context) error {
	stop := d.o.Registry.WatchNamespaces(d.pending.Note)
	d.pending.Note("") // for changes between Open and now
	d.follow(ctx)
	stop()
	d.close()
	return nil
}

func (d *Directory) close() {
	d.mu.Lock()
	d.closed = true
	all := slices.Collect(maps.Values(d.byID))
	d.mu.Unlock()
	d.cancel()
	var closing sync.WaitGroup
	for _, m := range all {
		closing.Go(func() { m.close(nil) })
	}
	closing.Wait()
	d.tasks.Wait()
}

// goOpen runs f in a goroutine for which close waits, or returns false if the directory is closed.
func (d *Directory) goOpen(f func()) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return false
	}
	d.tasks.Go(f)
	return true
}

// enter adds m and returns it, or returns the namespace that has m's name; nil: d is closed.
func (d *Directory) enter(m *Member) *Member {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := m.record.Load()
	name := core.FoldName(r.Name)
	if other := d.byName[name]; other != nil || d.closed {
		return other
	}
	d.byID[r.ID], d.byName[name] = m, m
	d.index(m, r)
	return m
}

// index records m's hosts and policies. If two namespaces have the same host, the host means the
// one that was indexed first. d.mu is held.
func (d *Directory) index(m *Member, r *record) {
	d.version++
	for _, h := range r.hosts {
		if d.byHost[h] == nil {
			d.byHost[h] = m
		}
	}
	if m == d.own {
		return
	}
	for _, p := range r.Policies {
		d.byPolicy[p.Name] = append(d.byPolicy[p.Name], m)
	}
}

// d.mu is held.
func (d *Directory) unindex(m *Member, r *record) {
	d.version++
	for _, h := range r.hosts {
		if d.byHost[h] == m {
			delete(d.byHost, h)
		}
	}
	for _, p := range r.Policies {
		rest := slices.DeleteFunc(d.byPolicy[p.Name], func(other *Member) bool { return other == m })
		if d.byPolicy[p.Name] = rest; len(rest) == 0 {
			delete(d.byPolicy, p.Name)
		}
	}
}

func (d *Directory) update(m *Member, n core.Namespace) (moved bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := m.record.Load()
	if d.byID[n.ID] != m || n.Revision <= old.Revision {
		return false
	}
	fresh := m.newRecord(n)
	d.unindex(m, old)
	m.record.Store(fresh)
	d.index(m, fresh)
	return n.Clock != nil && old.Clock != nil && *n.Clock != *old.Clock
}

// Configure gives the gateway's own and the configured namespaces new policies, hosts and quotas.
// It ignores new names. Connected clients stay connected until their tokens expire.
func (d *Directory) Configure(all []core.Namespace) {
	d.changing.Lock()
	defer d.changing.Unlock()
	for _, m := range d.fixed {
		old := m.record.Load()
		for _, n := range all {
			if n.Name == old.Name {
				n.ID, n.Revision, n.Clock, n.Faults = old.ID, old.Revision+1, old.Clock, old.Faults
				d.update(m, n)
			}
		}
	}
}

func (d *Directory) remove(m *Member) {
	d.mu.Lock()
	r := m.record.Load()
	if d.byID[r.ID] != m {
		d.mu.Unlock()
		return
	}
	delete(d.byID, r.ID)
	d.losses++
	if d.byName[core.FoldName(r.Name)] == m {
		delete(d.byName, core.FoldName(r.Name))
	}
	d.unindex(m, r)
	d.mu.Unlock()
	d.log.Info("namespace deleted", "namespace", r.Name)
	if !d.goOpen(func() { m.close(gone(r.Name)) }) {
		m.close(gone(r.Name))
	}
}

func gone(name string) error {
	return core.Refuse(core.NotFound, "The namespace '%s' was deleted.", name)
}

func (d *Directory) named(name string) *Member {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byName[core.FoldName(name)]
}

// The nil Identity, which has no rights, gets the gateway's own namespace.
func (d *Directory) of(id core.Identity) (*Member, error) {
	if len(id) == 0 {
		return d.own, nil
	}
	d.mu.RLock()
	m := d.byID[id.NamespaceID()]
	d.mu.RUnlock()
	if m == nil {
		return nil, gone(id.Namespace())
	}
	return m, nil
}

func (d *Directory) Space(ctx context.Context, id core.Identity) (*intercept.Space, error) {
	m, err := d.of(id)
	if err != nil {
		return nil, err
	}
	s, err := m.serve(ctx)
	if err != nil {
		return nil, err
	}
	return &s.Space, nil
}

// Operator reports whether id has the operator's right: Manage on the gateway's own namespace.
func (d *Directory) Operator(id core.Identity, now time.Time) bool {
	return id.NamespaceID() == d.own.record.Load().ID && id.Check(core.Manage, "", now) == nil
}
