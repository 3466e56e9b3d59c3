package namespaces

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
)

// Served is what serves one namespace.
type Served struct {
	Broker core.Broker
	Admin  core.Admin
	// Close ends it and waits for that. It is called once.
	Close func()
}

// Options configure a Directory. Own and Open are required.
type Options struct {
	// Own is the gateway's own namespace, and Configured are others that are not in
	// the registry. Of each the ID is its name.
	Own        core.Namespace
	Configured []core.Namespace
	// Registry keeps those that are made at run time. Nil: there are none.
	Registry core.Namespaces
	// Open makes what serves a namespace. quotas are those of now, and answers reports
	// whether a folded host is now one of the namespace or of the gateway. It must not
	// take long for a namespace of the registry.
	Open func(ctx context.Context, n core.Namespace, quotas func() core.NamespaceQuotas, answers func(host string) bool) (Served, error)
	// Hosts are names of the gateway that say nothing about a namespace.
	Hosts []string
	// Issuers verifies JSON web tokens, which are for the gateway's own namespace.
	// Nil: none is accepted.
	Issuers auth.Issuers
	// PublicKeys are keys that everybody knows: no policy of a namespace that is made
	// or changed may have one.
	PublicKeys []string
	// Limits are those of the cloud that hold here, too; none by default.
	Limits core.Limits
	// Now is the store's clock; default time.Now.
	Now func() time.Time
	// Logger may be nil.
	Logger *slog.Logger
}

// Directory implements core.Broker, core.Admin and core.Authority for all
// namespaces of a gateway. All methods are safe for concurrent use.
type Directory struct {
	o     Options
	log   *slog.Logger
	own   *member
	fixed []*member // own first, then the configured ones

	base   context.Context // of work that no caller waits for
	cancel context.CancelFunc
	tasks  sync.WaitGroup // grows under mu while open

	mu       sync.RWMutex
	closed   bool
	byID     map[string]*member
	byName   map[string]*member   // folded
	byHost   map[string]*member   // as foldHost has it
	byPolicy map[string][]*member // by the policy's name, without own; see recent
	version  uint64               // of what is known; grows with each change
	losses   uint64               // how often something was found to be gone

	news     news
	lookup   sharedLookup
	searches searches
	tries    atomic.Uint64
}

var (
	_ core.Broker    = (*Directory)(nil)
	_ core.Admin     = (*Directory)(nil)
	_ core.Authority = (*Directory)(nil)
)

// openPause lies between two namespaces that are opened before somebody asks for
// them, so that the work that each does now and then is spread.
const openPause = 10 * time.Millisecond

// Open makes a Directory: it opens the gateway's own and the configured
// namespaces, and reads the registry. Run must be called then, also for it to end.
func Open(ctx context.Context, o Options) (*Directory, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Directory{
		o: o, log: o.Logger,
		byID: map[string]*member{}, byName: map[string]*member{}, byHost: map[string]*member{}, byPolicy: map[string][]*member{},
		news: newNews(),
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
	if o.Registry != nil {
		if err := d.readAll(ctx); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

// Run follows the registry and opens what it holds, until ctx ends. Then it
// closes all namespaces and returns nil when they are. Call it once.
func (d *Directory) Run(ctx context.Context) error {
	if d.o.Registry == nil {
		<-ctx.Done()
	} else {
		stop := d.o.Registry.WatchNamespaces(d.news.changed)
		d.news.changed("") // what came between Open and now
		d.follow(ctx)
		stop()
	}
	d.close()
	return nil
}

// close ends everything and waits for it.
func (d *Directory) close() {
	d.mu.Lock()
	d.closed = true
	all := make([]*member, 0, len(d.byID))
	for _, m := range d.byID {
		all = append(all, m)
	}
	d.mu.Unlock()
	d.cancel()
	var closing sync.WaitGroup
	for _, m := range all {
		closing.Go(func() { m.close(nil) })
	}
	closing.Wait()
	d.tasks.Wait()
}

// goOpen starts f as a task that close waits for; it reports false, and does
// nothing, once the directory is closed.
func (d *Directory) goOpen(f func()) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return false
	}
	d.tasks.Go(f)
	return true
}

// enter makes m known, and returns it, unless another has its name: then that.
func (d *Directory) enter(m *member) *member {
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

// index makes m found by its hosts and policies. Of a host that two claim, who was
// first keeps it. d.mu is held.
func (d *Directory) index(m *member, r *record) {
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

// strike is the reverse of index. d.mu is held.
func (d *Directory) strike(m *member, r *record) {
	d.version++
	for _, h := range r.hosts {
		if d.byHost[h] == m {
			delete(d.byHost, h)
		}
	}
	for _, p := range r.Policies {
		rest := slices.DeleteFunc(d.byPolicy[p.Name], func(other *member) bool { return other == m })
		if d.byPolicy[p.Name] = rest; len(rest) == 0 {
			delete(d.byPolicy, p.Name)
		}
	}
}

// update gives m a newer record.
func (d *Directory) update(m *member, n core.Namespace) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := m.record.Load()
	if d.byID[n.ID] != m || n.Revision <= old.Revision {
		return
	}
	fresh := m.newRecord(n)
	d.strike(m, old)
	m.record.Store(fresh)
	d.index(m, fresh)
}

// Configure gives the gateway's own namespace and the configured ones, told by
// their names, other policies, hosts and quotas. Names that Open was not given are
// left out. Clients that are connected stay so until their tokens expire.
func (d *Directory) Configure(all []core.Namespace) {
	for _, m := range d.fixed {
		old := m.record.Load()
		for _, n := range all {
			if n.Name == old.Name {
				n.ID, n.Revision = old.ID, old.Revision+1
				d.update(m, n)
			}
		}
	}
}

// remove forgets m, and ends it.
func (d *Directory) remove(m *member) {
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
	d.strike(m, r)
	d.mu.Unlock()
	d.log.Info("namespace deleted", "namespace", r.Name)
	if !d.goOpen(func() { m.close(gone(r.Name)) }) {
		m.close(gone(r.Name))
	}
}

// gone is what peers of a namespace hear that was deleted.
func gone(name string) error {
	return core.Refuse(core.NotFound, "The namespace '%s' was deleted.", name)
}

// named is the namespace of that name, or nil.
func (d *Directory) named(name string) *member {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byName[core.FoldName(name)]
}

// of is the namespace of a peer. Nobody's is the gateway's own, where nobody may
// do anything.
func (d *Directory) of(id core.Identity) (*member, error) {
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

// served is what serves a peer.
func (d *Directory) served(ctx context.Context, id core.Identity) (Served, error) {
	m, err := d.of(id)
	if err != nil {
		return Served{}, err
	}
	return m.serve(ctx)
}

// Operator reports whether an identity may run the gateway: it may Manage all of
// the gateway's own namespace.
func (d *Directory) Operator(id core.Identity, now time.Time) bool {
	return id.NamespaceID() == d.own.record.Load().ID && id.Check(core.Manage, "", now) == nil
}
