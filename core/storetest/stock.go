package storetest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Kind is a kind of data that a store keeps for a client, and that the entity's size must include.
type Kind struct {
	Name     string
	sessions bool
	slow     bool // storing one takes several calls
	bodiless bool // bodies do not stay
	window   time.Duration
	sub      core.SubQueue
	make     func(i int, m *core.Message)
	then     func(*Stock) // called after the messages are stored
}

const stockTime = time.Hour // the lifetime of everything in a Stock that ends by itself

func Kinds() []Kind {
	plain := func(int, *core.Message) {}
	return []Kind{
		{Name: "plain", make: plain},
		{Name: "with properties", make: func(i int, m *core.Message) {
			m.Subject, m.ContentType = fmt.Sprintf("subject %d", i), strings.Clone("application/json")
			m.MessageID, m.CorrelationID = core.StringID(fmt.Sprintf("message-%d", i)), core.StringID(fmt.Sprintf("correlation-%d", i))
			m.Properties = mustProperties("kind", fmt.Sprintf("order %d", i), "region", "eu-west-1", "attempt", int32(i))
		}},
		{Name: "scheduled", make: func(_ int, m *core.Message) { m.ScheduledEnqueueTime = time.Time{}.Add(1) }},
		{Name: "expiring", make: func(_ int, m *core.Message) { m.TimeToLive = stockTime }},
		{Name: "scheduled and expiring", make: func(_ int, m *core.Message) { m.ScheduledEnqueueTime, m.TimeToLive = time.Time{}.Add(1), stockTime }},
		{Name: "in a session", sessions: true, make: func(_ int, m *core.Message) { m.SessionID = "the only one" }},
		{Name: "in sessions of their own", sessions: true, make: func(i int, m *core.Message) { m.SessionID = fmt.Sprintf("session number %d", i) }},
		{Name: "locked", make: plain, then: func(s *Stock) { s.lock(s.main, func([]core.Delivery) {}) }},
		{Name: "locked in a session", sessions: true, make: func(_ int, m *core.Message) { m.SessionID = "the only one" }, then: func(s *Stock) {
			s.inSessions(func(l core.SessionLock) {
				for s.lockIn(l) > 0 {
				}
			})
		}},
		{Name: "delivered before", make: plain, then: func(s *Stock) { s.settle(core.Abandon, core.Properties{}) }},
		{Name: "deferred", make: plain, then: func(s *Stock) { s.settle(core.Defer, mustProperties("reason", "later")) }},
		{Name: "dead-lettered", make: plain, then: func(s *Stock) {
			s.settle(core.DeadLetterOutcome, mustProperties("DeadLetterReason", "broken"))
		}},
		{Name: "in transfer", sub: core.Transfer, make: plain},
		{Name: "transfer dead letters", sub: core.TransferDeadLetter, make: plain},
		{Name: "with duplicate detection", window: stockTime, make: func(i int, m *core.Message) { m.MessageID = core.StringID(fmt.Sprintf("message-%d", i)) }},
		{Name: "remembered for duplicate detection only", bodiless: true, window: stockTime, make: func(i int, m *core.Message) {
			m.MessageID = core.StringID(fmt.Sprintf("%0128d", i))
		}, then: func(s *Stock) { s.settle(core.Complete, core.Properties{}) }},
		{Name: "states of sessions", sessions: true, slow: true, make: func(i int, m *core.Message) { m.SessionID = fmt.Sprintf("session number %d", i) }, then: func(s *Stock) {
			s.inSessions(func(l core.SessionLock) {
				s.check("set state", s.main.In(s.store).SetSessionState(s.Context(), l, make([]byte, s.size)))
				s.completeIn(l)
				s.check("release", s.main.In(s.store).ReleaseSession(s.Context(), l))
				s.stated = append(s.stated, l.ID)
			})
		}},
	}
}

func (k *Kind) ManyOf(size int) int {
	n := max(32, min(1000, 2<<20/size))
	if k.slow {
		n = max(32, n/4)
	}
	return n
}

func (k *Kind) Sizes() []int {
	if k.bodiless {
		return []int{100}
	}
	return []int{100, 1 << 10, 64 << 10}
}

func mustProperties(keysAndValues ...any) core.Properties {
	var pairs []core.Property
	for i := 0; i < len(keysAndValues); i += 2 {
		pairs = append(pairs, core.Property{Key: keysAndValues[i].(string), Value: keysAndValues[i+1]})
	}
	p, err := core.NewProperties(pairs...)
	if err != nil {
		panic(err)
	}
	return p
}

type Stock struct {
	testing.TB
	store    core.Store
	clock    *Clock
	kind     Kind
	main     core.Partition
	size     int
	deferred []int64
	stated   []string
}

var stocks atomic.Int64

func NewStock(tb testing.TB, store core.Store, clock *Clock, k Kind) *Stock {
	tb.Helper()
	name := fmt.Sprintf("stock%d", stocks.Add(1))
	e := newEntity(name, name)
	e.Partitions, e.Settings.RequiresSession = 1, k.sessions
	s := &Stock{TB: tb, store: store, clock: clock, kind: k, main: core.Partition{
		Ref: core.Ref{Entity: name}, Policy: core.Policy{LockDuration: stockTime, DuplicateWindow: k.window, Sessions: k.sessions},
	}}
	_, err := store.CreateEntity(tb.Context(), e, core.NamespaceQuotas{})
	s.check("create", err)
	return s
}

func (s *Stock) check(what string, err error) {
	if err != nil {
		s.Helper()
		s.Fatalf("%s, %s: %v", s.kind.Name, what, err)
	}
}

func (s *Stock) Fill(n, size int) {
	s.Helper()
	s.size = size
	to := s.main
	if s.kind.sub != core.Main {
		to = sub(s.main, s.kind.sub)
	}
	var group []*core.Message
	for i := range n {
		m := &core.Message{Body: core.Body{Bytes: make([]byte, size)}}
		if s.kind.make(i, m); !m.ScheduledEnqueueTime.IsZero() {
			m.ScheduledEnqueueTime = s.clock.Now().Add(stockTime)
		}
		if group = append(group, m); len(group)*size < 256<<10 && len(group) < 200 && i+1 < n {
			continue
		}
		s.check("append", to.In(s.store).Append(s.Context(), [][]*core.Message{group})[0].Err)
		group = nil
	}
	if s.kind.then != nil {
		s.kind.then(s)
	}
}

func (s *Stock) Size() int64 {
	s.Helper()
	stats, err := Stats(s.Context(), s.store, s.main)
	s.check("stats", err)
	return stats.Bytes
}

// Empty lets locks, delays and messages expire, and removes the rest.
func (s *Stock) Empty() {
	s.Helper()
	s.clock.Advance(2 * stockTime)
	for len(s.deferred) > 0 {
		some := s.deferred[:min(100, len(s.deferred))]
		s.deferred = s.deferred[len(some):]
		ds, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: some, Deferred: true})
		s.check("lock deferred", err)
		s.end(s.main, ds, core.Complete, core.Properties{})
	}
	for _, id := range s.stated {
		l, _, _, err := s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{ID: id, Mode: core.SessionMode(0)})
		s.check("accept", err)
		s.check("forget state", s.main.In(s.store).SetSessionState(s.Context(), l, nil))
		s.check("release", s.main.In(s.store).ReleaseSession(s.Context(), l))
	}
	if s.main.Sessions {
		s.inSessions(func(l core.SessionLock) {
			s.completeIn(l)
			s.check("release", s.main.In(s.store).ReleaseSession(s.Context(), l))
		})
		return
	}
	for which := range core.SubQueues {
		p := sub(s.main, which)
		s.lock(p, func(ds []core.Delivery) { s.end(p, ds, core.Complete, core.Properties{}) })
	}
}

func (s *Stock) lock(p core.Partition, then func([]core.Delivery)) {
	for {
		ds, _, err := p.In(s.store).Lock(s.Context(), core.LockRequest{Most: core.Most{Messages: 1000}})
		s.check("lock", err)
		if len(ds) == 0 {
			return
		}
		then(ds)
	}
}

func (s *Stock) settle(o core.Outcome, over core.Properties) {
	var all []core.Delivery
	s.lock(s.main, func(ds []core.Delivery) { all = append(all, ds...) })
	s.end(s.main, all, o, over)
	if o == core.Defer {
		for i := range all {
			s.deferred = append(s.deferred, all[i].SequenceNumber)
		}
	}
}

func (s *Stock) end(p core.Partition, ds []core.Delivery, o core.Outcome, over core.Properties) {
	for len(ds) > 0 {
		some := ds[:min(100, len(ds))]
		ds = ds[len(some):]
		settlements := make([]core.Settlement, len(some))
		for i := range some {
			settlements[i] = core.Settlement{Token: some[i].LockToken, Outcome: o, Properties: over}
		}
		for _, err := range p.In(s.store).Settle(s.Context(), settlements) {
			s.check("settle", err)
		}
	}
}

func (s *Stock) inSessions(then func(core.SessionLock)) {
	for {
		l, ok, _, err := s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{Next: true, Mode: core.SessionMode(0)})
		s.check("accept next", err)
		if !ok {
			return
		}
		then(l)
	}
}

func (s *Stock) lockIn(l core.SessionLock) int {
	ds, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Most: core.Most{Messages: 1000}, Session: &l})
	s.check("lock", err)
	return len(ds)
}

func (s *Stock) completeIn(l core.SessionLock) {
	for {
		ds, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Most: core.Most{Messages: 1000}, Session: &l})
		s.check("lock", err)
		if len(ds) == 0 {
			return
		}
		s.end(s.main, ds, core.Complete, core.Properties{})
	}
}
