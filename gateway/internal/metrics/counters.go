package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
)

const (
	// counterAge is how old the answer to an autoscaler may be.
	counterAge = time.Second
	// maxCounters is the largest number of answers that are kept.
	maxCounters = 1000
	// maxSessions is the largest number of sessions that are counted.
	maxSessions = 1000
)

// Counter is what an autoscaler needs to know about a queue or subscription. Active is counted as
// Service Bus does: ready, locked and deferred messages.
type Counter struct {
	Entity     string `json:"entity"`
	Active     int64  `json:"active"`
	Ready      int64  `json:"ready"`
	Locked     int64  `json:"locked"`
	Deferred   int64  `json:"deferred"`
	Scheduled  int64  `json:"scheduled"`
	DeadLetter int64  `json:"deadLetter"`
	Transfer   int64  `json:"transfer"`
	Damaged    int64  `json:"damaged"`             // in all its queues, and in no other count
	RateLimit  string `json:"rateLimit,omitempty"` // see core.Runtime
	// Sessions is the number of sessions with messages or state, at most 1000. SessionsHeld is how
	// many of them receivers hold, and SessionsWaiting is how many have messages and are free. All
	// are nil if the entity has no sessions.
	Sessions        *int   `json:"sessions,omitempty"`
	SessionsHeld    *int64 `json:"sessionsHeld,omitempty"`
	SessionsWaiting *int64 `json:"sessionsWaiting,omitempty"`
}

// Counted is what Counters needs; *broker.Broker implements it.
type Counted interface {
	Holding(ctx context.Context, name string) (broker.Holding, error)
	CountSessions(ctx context.Context, name string, most int) (int, error)
}

// Counters answers autoscalers. It asks the store at most once a second for each entity. It is safe
// for concurrent use.
type Counters struct {
	source Counted

	mu   sync.Mutex
	kept map[string]*count // by folded name
}

// count is an answer, or one that is being determined.
type count struct {
	done  chan struct{} // closed when value and err are set
	at    time.Time     // when they were set; zero before that
	value Counter
	err   error
}

// NewCounters returns Counters that read from source.
func NewCounters(source Counted) *Counters {
	return &Counters{source: source, kept: map[string]*count{}}
}

// Read returns the counts of an entity, or NotFound. Concurrent calls for the same entity share an
// answer.
func (c *Counters) Read(ctx context.Context, e core.Entity) (Counter, error) {
	n, first := c.lookup(core.FoldName(e.Name))
	if first { // others wait for the answer, even if our client does not
		c.find(context.WithoutCancel(ctx), n, e)
	}
	select {
	case <-n.done:
		return n.value, n.err
	case <-ctx.Done():
		return Counter{}, context.Cause(ctx)
	}
}

// lookup returns the answer for an entity. first says that the caller must determine it.
func (c *Counters) lookup(key string) (n *count, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n = c.kept[key]; n != nil && !n.isOld() {
		return n, false
	}
	if len(c.kept) >= maxCounters {
		for k, old := range c.kept {
			if old.isOld() {
				delete(c.kept, k)
			}
		}
	}
	n = &count{done: make(chan struct{})}
	c.kept[key] = n
	return n, true
}

func (n *count) isOld() bool { return !n.at.IsZero() && time.Since(n.at) >= counterAge }

// find determines an answer.
func (c *Counters) find(ctx context.Context, n *count, e core.Entity) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	n.value, n.err = c.ask(ctx, e)
	c.mu.Lock()
	n.at = time.Now()
	c.mu.Unlock()
	close(n.done)
}

func (c *Counters) ask(ctx context.Context, e core.Entity) (Counter, error) {
	h, err := c.source.Holding(ctx, e.Name)
	if err != nil {
		return Counter{}, err
	}
	main, dead, transfer := &h.Counts[core.Main], &h.Counts[core.DeadLetter], &h.Counts[core.Transfer]
	told := Counter{
		Entity: h.Entity, RateLimit: h.RateLimit, Ready: main.Ready, Locked: main.Locked, Deferred: main.Deferred, Scheduled: main.Scheduled,
		Active:     main.Ready + main.Locked + main.Deferred,
		DeadLetter: dead.Ready + dead.Locked + dead.Deferred,
		Transfer:   transfer.Ready + transfer.Locked,
	}
	for i := range h.Counts {
		told.Damaged += h.Counts[i].Damaged
	}
	if e.Settings.RequiresSession {
		sessions, err := c.source.CountSessions(ctx, e.Name, maxSessions)
		if err != nil {
			return Counter{}, err
		}
		told.Sessions, told.SessionsHeld, told.SessionsWaiting = &sessions, &main.SessionsHeld, &main.SessionsWaiting
	}
	return told, nil
}
