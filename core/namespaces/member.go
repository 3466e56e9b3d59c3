package namespaces

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
)

// Member is a namespace of the gateway.
type Member struct {
	d      *Directory
	fixed  bool
	record atomic.Pointer[record]
	opened atomic.Pointer[Served] // nil until it is opened

	mu          sync.Mutex
	ended       error // why the namespace admits no more connections
	connections map[*connection]struct{}
}

type record struct {
	core.Namespace
	hosts     []string // in the form of foldHost, with those that follow from the name
	authority *auth.Authority
}

type connection struct{ closed func(error) }

var errStopping = core.Refuse(core.Busy, "The gateway is stopping. Connect again.")

func newMember(d *Directory, n core.Namespace) *Member {
	m := &Member{d: d, fixed: n.ID == n.Name, connections: map[*connection]struct{}{}}
	m.record.Store(m.newRecord(n))
	return m
}

func (m *Member) newRecord(n core.Namespace) *record {
	r := &record{Namespace: n, hosts: HostsOf(&n)}
	o := auth.Options{
		Namespace: n.Name, NamespaceID: n.ID, Policies: n.Policies, Entities: m.entity,
		Hosts: append(slices.Clone(r.hosts), m.d.o.Hosts...),
	}
	if m.d.own == nil || m == m.d.own {
		o.Issuers = m.d.o.Issuers
		o.Hosts = append(o.Hosts, n.Name) // in a signed resource, a first segment that names another namespace can only be a queue's name
	}
	r.authority = auth.New(o)
	return r
}

func (m *Member) entity(ctx context.Context, name string) (core.Entity, error) {
	s, err := m.serve(ctx)
	if err != nil {
		return core.Entity{}, err
	}
	return s.Broker.Resolve(ctx, nil, core.At(name))
}

func (m *Member) serve(ctx context.Context) (*Served, error) {
	if s := m.opened.Load(); s != nil {
		return s, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.opened.Load(); s != nil {
		return s, nil
	}
	if m.ended != nil {
		return nil, m.ended
	}
	s, err := m.d.o.Open(ctx, m.record.Load().Namespace, m)
	if err != nil {
		return nil, err
	}
	if !m.fixed {
		s.Describe = m.describe
	}
	m.opened.Store(&s)
	return &s, nil
}

func (m *Member) describe(info *core.NamespaceInfo) {
	r := m.record.Load()
	info.Name, info.CreatedAt, info.ModifiedAt = r.Name, r.CreatedAt, r.ModifiedAt
}

func (m *Member) Quotas() core.NamespaceQuotas { return m.record.Load().Quotas }

// Time returns the namespace's time for the store's time now. Without a Clock, both are equal.
func (m *Member) Time(now time.Time) time.Time {
	if c := m.record.Load().Clock; c != nil {
		return c.At(now)
	}
	return now
}

func (m *Member) Faults() string { return m.record.Load().Faults }

// ChangeFaults, with Faults, implements faults.Book. The fault rules of a configured namespace are
// lost when the process ends.
func (m *Member) ChangeFaults(ctx context.Context, edit func(text string) (string, error)) error {
	id := m.record.Load().ID
	return m.d.edit(ctx, m, func(n *core.Namespace) (err error) {
		if n.ID != id {
			return gone(n.Name)
		}
		n.Faults, err = edit(n.Faults)
		return err
	})
}

// Answers also accepts hosts of the gateway, which identify no namespace.
func (m *Member) Answers(host string) bool {
	r := m.record.Load()
	return core.FoldName(r.Name) == host || slices.Contains(r.hosts, host) ||
		slices.ContainsFunc(m.d.o.Hosts, func(own string) bool { return core.FoldHost(own) == host })
}

func (m *Member) enter(closed func(error)) (leave func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended != nil {
		return nil, m.ended
	}
	if most := m.Quotas().MaxConnections; most > 0 && len(m.connections) >= most {
		return nil, core.Refuse(core.QuotaExceeded, "The namespace '%s' has %d connections, which is the limit: close some, or increase the namespace's maximum.", m.record.Load().Name, most)
	}
	e := &connection{closed}
	m.connections[e] = struct{}{}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.connections, e)
	}, nil
}

// close closes the namespace, and waits for its end. Its connections get the reason. If reason is
// nil, the gateway is stopping, and closes the connections itself.
func (m *Member) close(reason error) {
	m.mu.Lock()
	if m.ended != nil {
		m.mu.Unlock()
		return
	}
	m.ended = reason
	if reason == nil {
		m.ended = errStopping
	}
	inside := m.connections
	m.connections = map[*connection]struct{}{}
	s := m.opened.Load()
	m.mu.Unlock()
	if reason != nil {
		for e := range inside {
			if e.closed != nil {
				e.closed(reason)
			}
		}
	}
	if s != nil {
		s.Close()
	}
}
