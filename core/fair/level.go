package fair

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/intercept"
)

// Level says how much of its memory the process uses. At every level, calls in progress continue,
// and so do calls that free memory: settlements, renewals, deletions and detaches. Receivers always
// get a few deliveries, so that clients can empty a full store.
type Level int32

const (
	Normal Level = iota
	Raised       // more than half is used; nothing is refused
	Tight        // refused: messages of policies that have recently sent much; new entities and rules; settlements and session states with more than a little data
	Full         // also refused: messages of namespaces that have recently sent more than a little; peeks, streams and taps
)

// String returns the level's name in /health and in metrics.
func (l Level) String() string { return [...]string{"normal", "raised", "tight", "full"}[l] }

func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Gauge has the Level of the process. It is safe for concurrent use. A nil Gauge stays at Normal.
type Gauge struct {
	level atomic.Int32
	room  atomic.Int64 // bytes that new work may still use; 0: no limit

	forgot time.Time // when Set last reduced the flows; only Set uses it

	mu    sync.Mutex
	pools []*Pool
}

// Every forgetInterval, Set reduces all flows (what policies have recently taken) by 1/forgetPart.
const forgetInterval, forgetPart = 250 * time.Millisecond, 32

func (g *Gauge) Level() Level {
	if g == nil {
		return Normal
	}
	return Level(g.level.Load())
}

// Set must be called regularly: it also halves the flows of all policies in about six seconds.
func (g *Gauge) Set(to Level) {
	was := Level(g.level.Swap(int32(to)))
	now := time.Now()
	forgets := now.Sub(g.forgot) >= forgetInterval
	if forgets {
		g.forgot = now
	} else if to >= was {
		return
	}
	g.mu.Lock()
	pools := g.pools
	g.mu.Unlock()
	for _, p := range pools {
		var due []*Share
		p.mu.Lock()
		if forgets {
			p.forgetFlow()
		}
		if to < was {
			due = p.due()
		}
		p.mu.Unlock()
		for _, s := range due {
			s.rouse()
		}
	}
}

// SetRoom sets how many more bytes the process may use before Full begins, as last measured. Work
// in progress may not be in the measurement yet. So new work is refused, as at Full, if it and the
// work in progress together exceed n.
func (g *Gauge) SetRoom(n int64) { g.room.Store(max(n, 1)) }

func (g *Gauge) lacks(n int64) bool {
	if g == nil {
		return false
	}
	room := g.room.Load()
	return room > 0 && n > room
}

func (g *Gauge) Refusal() error {
	return core.Refuse(core.Busy, "The gateway's memory is almost full. Try again later.")
}

func (g *Gauge) Refusing(since time.Time) (names []string) {
	g.mu.Lock()
	pools := g.pools
	g.mu.Unlock()
	for _, p := range pools {
		p.mu.Lock()
		if p.latest.After(since) {
			names = append(names, p.name)
		}
		p.mu.Unlock()
	}
	return names
}

func (g *Gauge) add(p *Pool) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pools = append(g.pools, p)
}

// While memory is short, Intercept refuses operations that need memory, but none that free memory.
// p is the pool of messages in progress.
func (p *Pool) Intercept(ctx context.Context, c *intercept.Call) {
	refused := false
	switch level := p.gauge.Level(); c.Op {
	case intercept.Send, intercept.Schedule:
		refused = level >= Tight && p.Refuses(Of(c.ID))
	case intercept.Create: // an entity's memory is not freed soon
		refused = level >= Tight
	case intercept.Peek:
		refused = level >= Full
	}
	if refused {
		c.Fail(p.gauge.Refusal())
		return
	}
	c.Next(ctx)
}

// Shortage returns an error while memory is short. Calls that add lasting data ask it first.
func (p *Pool) Shortage() error {
	if p == nil || p.gauge.Level() < Tight {
		return nil
	}
	return p.gauge.Refusal()
}
