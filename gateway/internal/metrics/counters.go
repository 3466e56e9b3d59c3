package metrics

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
)

const (
	counterAge  = time.Second
	maxCounters = 1000
	maxSessions = 1000
)

// Counter has the counts of a queue or subscription, for an autoscaler. As in Service Bus, Active
// includes ready, locked and deferred messages.
type Counter struct {
	Entity     string `json:"entity"`
	Active     int64  `json:"active"`
	Ready      int64  `json:"ready"`
	Locked     int64  `json:"locked"`
	Deferred   int64  `json:"deferred"`
	Scheduled  int64  `json:"scheduled"`
	DeadLetter int64  `json:"deadLetter"`
	Transfer   int64  `json:"transfer"`
	Damaged    int64  `json:"damaged"` // in the entity and its sub-queues; other counts exclude these messages
	core.Applied
	// Sessions counts sessions with messages or state, up to 1000. SessionsHeld counts sessions that
	// receivers have locked, and SessionsWaiting unlocked sessions with messages. All are nil for an
	// entity without sessions.
	Sessions        *int   `json:"sessions,omitempty"`
	SessionsHeld    *int64 `json:"sessionsHeld,omitempty"`
	SessionsWaiting *int64 `json:"sessionsWaiting,omitempty"`
}

type Counted interface {
	Holding(ctx context.Context, name string) (broker.Holding, error)
	CountSessions(ctx context.Context, name string, most int) (int, error)
}

// Counters answers autoscalers. It asks the store at most once a second for each entity.
type Counters struct {
	source Counted
	asking singleflight.Group        // by folded name of the entity
	kept   *lru.Cache[string, count] // by folded name of the entity
}

type count struct {
	at    time.Time
	value Counter
	err   error
}

func NewCounters(source Counted) *Counters {
	kept, _ := lru.New[string, count](maxCounters) // the size is valid
	return &Counters{source: source, kept: kept}
}

// Read returns e's counts. Concurrent calls share a result, even if the first caller stops waiting.
func (c *Counters) Read(ctx context.Context, e core.Entity) (Counter, error) {
	key := core.FoldName(e.Name)
	answer := c.asking.DoChan(key, func() (any, error) { return c.find(context.WithoutCancel(ctx), key, e), nil })
	select {
	case a := <-answer:
		n := a.Val.(count)
		return n.value, n.err
	case <-ctx.Done():
		return Counter{}, context.Cause(ctx)
	}
}

func (c *Counters) find(ctx context.Context, key string, e core.Entity) count {
	n, _ := c.kept.Get(key)
	if time.Since(n.at) < counterAge {
		return n
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	n.value, n.err = c.ask(ctx, e)
	n.at = time.Now()
	c.kept.Add(key, n)
	return n
}

func (c *Counters) ask(ctx context.Context, e core.Entity) (Counter, error) {
	h, err := c.source.Holding(ctx, e.Name)
	if err != nil {
		return Counter{}, err
	}
	main, dead, transfer := &h.Counts[core.Main], &h.Counts[core.DeadLetter], &h.Counts[core.Transfer]
	told := Counter{
		Entity: h.Entity, Applied: h.Applied, Ready: main.Ready, Locked: main.Locked, Deferred: main.Deferred, Scheduled: main.Scheduled,
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
