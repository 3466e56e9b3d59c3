package metrics

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
)

const countAtOnce = 8

type Source interface {
	Now() time.Time
	Traffic() []broker.Traffic
	Holdings(ctx context.Context, wanted func(name string, k core.Kind) bool) ([]broker.Holding, error)
	Stages() []broker.StageCounts
	FailingSchedules() int
}

type space struct {
	name     string
	registry *prometheus.Registry
	entities *entities
}

type spaces struct {
	own, others *semaphore.Weighted // limits of entities with separate series

	mu  sync.Mutex
	all []*space
}

func (s *spaces) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// Namespace exports the counts of source and the states of the namespace's remotes (nil for none)
// until the caller calls hide. The first namespace must be the gateway's own. The handler own
// answers with this namespace only, and has its own limit of entities: otherwise a client could
// learn how many entities others have, and miss its own.
func (m *Metrics) Namespace(name string, source Source, states func() []remote.State) (own http.Handler, hide func()) {
	s := &m.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	shared := s.others
	if len(s.all) == 0 {
		shared = s.own
	}
	newSpace := func(a *semaphore.Weighted) *space {
		x := &space{name: name, registry: prometheus.NewRegistry(), entities: &entities{
			source: source, allowance: a, refresh: m.o.Refresh, log: m.o.Logger.With("namespace", name), own: map[string]bool{},
		}}
		x.registry.MustRegister(inNamespace(name, x.entities.collect), newStages(name, source.Stages))
		if states != nil {
			x.registry.MustRegister(newRemotes(name, states))
		}
		return x
	}
	x := newSpace(shared)
	s.all = append(s.all, x)
	alone := sync.OnceValue(func() http.Handler { // few clients scrape a single namespace
		return m.handler(newSpace(semaphore.NewWeighted(int64(m.o.MaxEntities))).registry)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { alone().ServeHTTP(w, r) }), func() {
		s.mu.Lock()
		s.all = slices.DeleteFunc(s.all, func(other *space) bool { return other == x })
		s.mu.Unlock()
		x.entities.end()
	}
}

func (m *Metrics) split() (shown, rest []*space) {
	m.spaces.mu.Lock()
	defer m.spaces.mu.Unlock()
	names := map[string]bool{}
	for _, x := range m.spaces.all {
		if len(shown) <= m.o.MaxNamespaces && !names[x.name] {
			names[x.name] = true
			shown = append(shown, x)
		} else {
			rest = append(rest, x)
		}
	}
	return shown, rest
}

func (m *Metrics) gather() ([]*dto.MetricFamily, error) {
	shown, rest := m.split()
	countAll(shown)
	all := prometheus.Gatherers{m.registry}
	for _, x := range shown {
		all = append(all, x.registry)
	}
	if len(rest) > 0 {
		sum := prometheus.NewRegistry()
		sum.MustRegister(remainder(rest))
		all = append(all, sum)
	}
	return all.Gather()
}

func countAll(of []*space) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	var counting errgroup.Group
	counting.SetLimit(countAtOnce)
	for _, x := range of {
		counting.Go(func() error {
			x.entities.keepUp(ctx)
			return nil
		})
	}
	_ = counting.Wait()
}

func remainder(of []*space) *collector {
	return inNamespace(others, func(s *scrape) {
		showTraffic(s, &broker.Traffic{Entity: others}) // zeros, even if the rest has no traffic
		for _, x := range of {
			for _, t := range x.entities.source.Traffic() {
				t.Entity = others
				showTraffic(s, &t)
			}
		}
	})
}

const (
	// others labels all entities without separate series. Names of entities cannot begin with "_".
	others       = "_other"
	countTimeout = 5 * time.Second
)

type entities struct {
	source    Source
	allowance *semaphore.Weighted
	refresh   time.Duration
	log       *slog.Logger

	mu     sync.Mutex
	own    map[string]bool // entities with separate series; false for one that the current count has not found yet
	read   time.Time       // when the last count began, even if it failed
	up     bool            // the last count succeeded
	counts []broker.Holding
	kinds  [core.Subscription + 1]int // numbers of entities
}

func (c *entities) collect(s *scrape) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	c.keepUp(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.source.Now()
	s.gauge("store_up", "1 if the store answered when messages were last counted.", truth(c.up))
	s.gauge("schedules_failing", "Schedules whose due tick this gateway could not send.", float64(c.source.FailingSchedules()))
	for k, n := range c.kinds {
		s.gauge("entities", "Queues, topics and subscriptions, including those without their own series.", float64(n), "kind", core.Kind(k).Word())
	}
	for i := range c.counts {
		showHolding(s, &c.counts[i], now)
	}
	for _, t := range c.source.Traffic() {
		if !c.admit(t.Entity) {
			t.Entity = others
		}
		showTraffic(s, &t)
	}
}

func (c *entities) keepUp(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.read.IsZero() || now.Sub(c.read) >= c.refresh {
		c.count(ctx)
		c.read = now
	}
}

func (c *entities) admit(name string) bool {
	if _, has := c.own[name]; !has && !c.allowance.TryAcquire(1) {
		return false
	}
	c.own[name] = true
	return true
}

// count counts messages. It removes the series of deleted entities, to make room for others. If the
// store does not answer, the old counts remain.
func (c *entities) count(ctx context.Context) {
	for name := range c.own {
		c.own[name] = false
	}
	var kinds [core.Subscription + 1]int
	var late []string // entities that had no room for their own series when the store listed them
	counts, err := c.source.Holdings(ctx, func(name string, k core.Kind) bool {
		kinds[k]++
		if !c.admit(name) {
			late = append(late, name)
			return false
		}
		return true
	})
	was := c.up || c.read.IsZero()
	c.up = err == nil
	if err != nil {
		if was {
			c.log.Warn("messages could not be counted for metrics; trying again later", "err", err)
		}
		return
	}
	c.counts, c.kinds = counts, kinds
	before := len(c.own)
	maps.DeleteFunc(c.own, func(_ string, seen bool) bool { return !seen })
	c.allowance.Release(int64(before - len(c.own)))
	for _, name := range late {
		c.admit(name) // the next count includes it
	}
}

func (c *entities) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allowance.Release(int64(len(c.own)))
	clear(c.own)
}

var queues = [core.SubQueues]string{"main", "deadletter", "transfer", "transfer_deadletter"}

func showHolding(s *scrape, h *broker.Holding, now time.Time) {
	for sub, n := range h.Counts {
		if h.Kind == core.Topic && core.SubQueue(sub) == core.DeadLetter {
			continue // a topic has no dead-letter queue
		}
		messages := func(state string, n int64) {
			s.gauge("entity_messages", "Stored messages, counted in the store: the same at all gateways.", float64(n), "entity", h.Entity, "queue", queues[sub], "state", state)
		}
		messages("ready", n.Ready)
		messages("locked", n.Locked)
		if n.Damaged > 0 {
			messages("damaged", n.Damaged)
		}
		if core.SubQueue(sub) == core.Main || core.SubQueue(sub) == core.DeadLetter {
			messages("deferred", n.Deferred)
		}
		if core.SubQueue(sub) == core.Main {
			messages("scheduled", n.Scheduled)
		}
	}
	main := &h.Counts[core.Main]
	s.gauge("entity_bytes", "Approximate size of the stored messages.", float64(main.Bytes), "entity", h.Entity)
	if h.Sessions {
		for state, n := range map[string]int64{"held": main.SessionsHeld, "waiting": main.SessionsWaiting} {
			s.gauge("entity_sessions", "Locked sessions, and free sessions with messages, counted in the store: the same at all gateways.", float64(n), "entity", h.Entity, "state", state)
		}
	}
	s.counter("entity_enqueued_total", "Messages accepted since the entity was created, through all gateways; a scheduled message counts again when it becomes active.", float64(main.Enqueued), "entity", h.Entity)
	if !h.Oldest.IsZero() {
		s.gauge("entity_oldest_message_age_seconds", "Age of the oldest message that is not scheduled.", max(now.Sub(h.Oldest).Seconds(), 0), "entity", h.Entity)
	}
}

func showTraffic(s *scrape, t *broker.Traffic) {
	s.counter("accepted_messages_total", "Messages that the entity accepted through this gateway, from senders, transactions and forwarding.", float64(t.Accepted), "entity", t.Entity)
	s.counter("absorbed_messages_total", "Messages that were accepted but not stored: duplicates, and messages that routers dropped or sent elsewhere.", float64(t.Absorbed), "entity", t.Entity)
	s.counter("cancelled_messages_total", "Scheduled messages that were cancelled through this gateway.", float64(t.Cancelled), "entity", t.Entity)
	s.gauge("senders", "Open senders at this gateway.", float64(t.Senders), "entity", t.Entity)
	s.gauge("sessions_held", "Sessions held through this gateway.", float64(t.Sessions), "entity", t.Entity)
	s.gauge("session_waiters", "Clients of this gateway that wait for the next available session.", float64(t.Waiting), "entity", t.Entity)
	if t.Breaker != "" && t.Entity != others {
		s.gauge("circuit_breaker_open", "1 while the entity's circuit breaker is open or half-open at this gateway.", truth(t.Breaker != "closed"), "entity", t.Entity)
		s.counter("circuit_breaker_openings_total", "How often the entity's circuit breaker has opened at this gateway.", float64(t.Opened), "entity", t.Entity)
	}
	if t.PerSecond > 0 && t.Entity != others {
		s.gauge("rate_limit_messages_per_second", "Deliveries per second that the entity's rate limit allows, over all gateways.", t.PerSecond, "entity", t.Entity)
	}
	for sub := range t.Queues {
		o, queue := &t.Queues[sub], queues[sub]
		if core.SubQueue(sub) != core.Main && *o == (broker.QueueTraffic{}) {
			continue // most sub-queues are never used
		}
		s.counter("delivered_messages_total", "Deliveries to receivers, including repeated deliveries of a message.", float64(o.Delivered), "entity", t.Entity, "queue", queue)
		s.counter("moved_messages_total", "Messages that this gateway forwarded, published when due, or dead-lettered because forwarding or publishing failed.", float64(o.Moved), "entity", t.Entity, "queue", queue)
		s.counter("locks_lost_total", "Settlements that arrived after the lock had ended.", float64(o.LocksLost), "entity", t.Entity, "queue", queue)
		s.gauge("receivers", "Open receivers at this gateway, without session receivers.", float64(o.Receivers), "entity", t.Entity, "queue", queue)
		s.gauge("receiver_credit_messages", "Credit of the open receivers: how many more messages they accept.", float64(o.Credit), "entity", t.Entity, "queue", queue)
		for outcome, n := range o.Settled {
			s.counter("settled_messages_total", "Settlements through this gateway, by outcome; receive-and-delete counts as complete.", float64(n), "entity", t.Entity, "queue", queue, "outcome", core.Outcome(outcome).String())
		}
	}
}
