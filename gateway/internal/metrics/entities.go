package metrics

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
)

const (
	// others labels all entities without separate series. Names of entities do not begin with "_".
	others       = "_other"
	countTimeout = 5 * time.Second
)

type entities struct {
	source    Source
	allowance *allowance
	refresh   time.Duration
	log       *slog.Logger
	show      entityMetrics

	mu     sync.Mutex
	own    map[string]bool // entities with separate series; false until the count in progress finds the entity
	read   time.Time       // when the last count began, successful or not
	up     bool            // the last count succeeded
	counts []broker.Holding
	kinds  [core.Subscription + 1]int // numbers of entities
}

type entityMetrics struct {
	up, failing, entities, messages, bytes, enqueued, oldest, inStore metric
	accepted, absorbed, cancelled, senders, sessions, waiting         metric // of an entity
	delivered, settled, moved, lost, receivers, credit                metric // of a sub-queue
	breaker, opened                                                   metric // of a circuit breaker
	rate                                                              metric // of a rate limit
}

func describeEntities(c *collector) entityMetrics {
	return entityMetrics{
		failing:   c.gauge("schedules_failing", "Schedules whose due tick this gateway could not send."),
		up:        c.gauge("store_up", "1 if the store answered when messages were last counted."),
		entities:  c.gauge("entities", "Queues, topics and subscriptions, including those without their own series.", "kind"),
		messages:  c.gauge("entity_messages", "Stored messages, counted in the store: the same at all gateways.", "entity", "queue", "state"),
		bytes:     c.gauge("entity_bytes", "Approximate size of the stored messages.", "entity"),
		enqueued:  c.counter("entity_enqueued_total", "Messages accepted since the entity was created, through all gateways; a scheduled message counts again when it becomes active.", "entity"),
		oldest:    c.gauge("entity_oldest_message_age_seconds", "Age of the oldest message that is not scheduled.", "entity"),
		inStore:   c.gauge("entity_sessions", "Locked sessions, and free sessions with messages, counted in the store: the same at all gateways.", "entity", "state"),
		accepted:  c.counter("accepted_messages_total", "Messages that the entity accepted through this gateway, from senders, transactions and forwarding.", "entity"),
		absorbed:  c.counter("absorbed_messages_total", "Messages that were accepted but not stored: duplicates, and messages that routers dropped or sent elsewhere.", "entity"),
		cancelled: c.counter("cancelled_messages_total", "Scheduled messages that were cancelled through this gateway.", "entity"),
		senders:   c.gauge("senders", "Open senders at this gateway.", "entity"),
		sessions:  c.gauge("sessions_held", "Sessions held through this gateway.", "entity"),
		waiting:   c.gauge("session_waiters", "Clients of this gateway that wait for the next available session.", "entity"),
		delivered: c.counter("delivered_messages_total", "Deliveries to receivers, including repeated deliveries of a message.", "entity", "queue"),
		settled:   c.counter("settled_messages_total", "Settlements through this gateway, by outcome; receive-and-delete counts as complete.", "entity", "queue", "outcome"),
		moved:     c.counter("moved_messages_total", "Messages that this gateway forwarded, published when due, or dead-lettered because forwarding or publishing failed.", "entity", "queue"),
		lost:      c.counter("locks_lost_total", "Settlements that arrived after the lock had ended.", "entity", "queue"),
		receivers: c.gauge("receivers", "Open receivers at this gateway, without session receivers.", "entity", "queue"),
		breaker:   c.gauge("circuit_breaker_open", "1 while the entity's circuit breaker is open or half-open at this gateway.", "entity"),
		rate:      c.gauge("rate_limit_messages_per_second", "Deliveries per second that the entity's rate limit allows, over all gateways.", "entity"),
		opened:    c.counter("circuit_breaker_openings_total", "How often the entity's circuit breaker has opened at this gateway.", "entity"),
		credit:    c.gauge("receiver_credit_messages", "Credit of the open receivers: how many more messages they accept.", "entity", "queue"),
	}
}

func (c *entities) collect(s scrape) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	c.keepUp(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.source.Now()
	c.show.up(s, truth(c.up))
	c.show.failing(s, float64(c.source.FailingSchedules()))
	for k, n := range c.kinds {
		c.show.entities(s, float64(n), strings.ToLower(core.Kind(k).String()))
	}
	for i := range c.counts {
		c.show.holding(s, &c.counts[i], now)
	}
	for _, t := range c.source.Traffic() {
		if !c.admit(t.Entity) {
			t.Entity = others
		}
		c.show.traffic(s, &t)
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
	if _, has := c.own[name]; !has && !c.allowance.take() {
		return false
	}
	c.own[name] = true
	return true
}

// count counts messages, and removes the series of deleted entities, to make room for others. If
// the store does not answer, the old counts remain.
func (c *entities) count(ctx context.Context) {
	for name := range c.own {
		c.own[name] = false
	}
	var kinds [core.Subscription + 1]int
	var late []string // entities without their own series, because there was no room when the store listed them
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
	c.allowance.give(before - len(c.own))
	for _, name := range late {
		c.admit(name) // the next count includes it
	}
}

func (c *entities) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allowance.give(len(c.own))
	clear(c.own)
}

var queues = [core.SubQueues]string{"main", "deadletter", "transfer", "transfer_deadletter"}

func (d *entityMetrics) holding(s scrape, h *broker.Holding, now time.Time) {
	for sub, n := range h.Counts {
		if h.Kind == core.Topic && core.SubQueue(sub) == core.DeadLetter {
			continue // a topic has no dead-letter queue
		}
		d.messages(s, float64(n.Ready), h.Entity, queues[sub], "ready")
		d.messages(s, float64(n.Locked), h.Entity, queues[sub], "locked")
		if n.Damaged > 0 {
			d.messages(s, float64(n.Damaged), h.Entity, queues[sub], "damaged")
		}
		if core.SubQueue(sub) == core.Main || core.SubQueue(sub) == core.DeadLetter {
			d.messages(s, float64(n.Deferred), h.Entity, queues[sub], "deferred")
		}
		if core.SubQueue(sub) == core.Main {
			d.messages(s, float64(n.Scheduled), h.Entity, queues[sub], "scheduled")
		}
	}
	d.bytes(s, float64(h.Counts[core.Main].Bytes), h.Entity)
	if h.Sessions {
		d.inStore(s, float64(h.Counts[core.Main].SessionsHeld), h.Entity, "held")
		d.inStore(s, float64(h.Counts[core.Main].SessionsWaiting), h.Entity, "waiting")
	}
	d.enqueued(s, float64(h.Counts[core.Main].Enqueued), h.Entity)
	if !h.Oldest.IsZero() {
		d.oldest(s, max(now.Sub(h.Oldest).Seconds(), 0), h.Entity)
	}
}

func (d *entityMetrics) traffic(s scrape, t *broker.Traffic) {
	d.accepted(s, float64(t.Accepted), t.Entity)
	d.absorbed(s, float64(t.Absorbed), t.Entity)
	d.cancelled(s, float64(t.Cancelled), t.Entity)
	d.senders(s, float64(t.Senders), t.Entity)
	d.sessions(s, float64(t.Sessions), t.Entity)
	d.waiting(s, float64(t.Waiting), t.Entity)
	if t.Breaker != "" && t.Entity != others {
		d.breaker(s, truth(t.Breaker != "closed"), t.Entity)
		d.opened(s, float64(t.Opened), t.Entity)
	}
	if t.PerSecond > 0 && t.Entity != others {
		d.rate(s, t.PerSecond, t.Entity)
	}
	for sub := range t.Queues {
		o, queue := &t.Queues[sub], queues[sub]
		if core.SubQueue(sub) != core.Main && *o == (broker.QueueTraffic{}) {
			continue // most sub-queues are never used
		}
		d.delivered(s, float64(o.Delivered), t.Entity, queue)
		d.moved(s, float64(o.Moved), t.Entity, queue)
		d.lost(s, float64(o.LocksLost), t.Entity, queue)
		d.receivers(s, float64(o.Receivers), t.Entity, queue)
		d.credit(s, float64(o.Credit), t.Entity, queue)
		for outcome, n := range o.Settled {
			d.settled(s, float64(n), t.Entity, queue, core.Outcome(outcome).String())
		}
	}
}
