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

type member struct {
	d      *Directory
	fixed  bool
	record atomic.Pointer[record]
	opened atomic.Pointer[Served] // nil until it is opened

	mu          sync.Mutex
	ended       error // why it admits no connection any more
	connections map[*connection]struct{}
}

type record struct {
	core.Namespace
	hosts     []string // in the form of foldHost, with those that follow from the name
	authority *auth.Authority
}

type connection struct{ closed func(error) }

var errStopping = core.Refuse(core.Busy, "The gateway is stopping. Connect again.")

func newMember(d *Directory, n core.Namespace) *member {
	m := &member{d: d, fixed: n.ID == n.Name, connections: map[*connection]struct{}{}}
	m.record.Store(m.newRecord(n))
	return m
}

func (m *member) newRecord(n core.Namespace) *record {
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

func (m *member) entity(ctx context.Context, name string) (core.Entity, error) {
	s, err := m.serve(ctx)
	if err != nil {
		return core.Entity{}, err
	}
	return s.Broker.Resolve(ctx, nil, core.At(name))
}

func (m *member) serve(ctx context.Context) (*Served, error) {
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

func (m *member) describe(info *core.NamespaceInfo) {
	r := m.record.Load()
	info.Name, info.CreatedAt, info.ModifiedAt = r.Name, r.CreatedAt, r.ModifiedAt
}

func (m *member) Quotas() core.NamespaceQuotas { return m.record.Load().Quotas }

func (m *member) Time(now time.Time) time.Time {
	if c := m.record.Load().Clock; c != nil {
		return c.At(now)
	}
	return now
}

func (m *member) Faults() string { return m.record.Load().Faults }

func (m *member) ChangeFaults(ctx context.Context, edit func(text string) (string, error)) error {
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
func (m *member) Answers(host string) bool {
	r := m.record.Load()
	return core.FoldName(r.Name) == host || slices.Contains(r.hosts, host) ||
		slices.ContainsFunc(m.d.o.Hosts, func(own string) bool { return core.FoldHost(own) == host })
}

func (m *member) enter(closed func(error)) (leave func(), err error) {
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
func (m *member) close(reason error) {
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
