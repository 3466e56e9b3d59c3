package fair

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/intercept"
)

// Level says how much of its memory the process uses. What is under way goes on at every level, and so do
// operations that give memory back: settlements, renewals, deletions, detaches.
type Level int32

// The levels.
const (
	Normal Level = iota
	Shed         // caches are emptied
	Tight        // what takes memory is refused as busy: sends, schedules, deposits, creations
	Full         // connections, sessions, links and streams are refused as well, and nothing is delivered
)

// String names the level as health and metrics do.
func (l Level) String() string { return [...]string{"normal", "shed", "tight", "full"}[l] }

// Gauge holds the Level of the process. It is safe for concurrent use. A nil Gauge is at Normal.
type Gauge struct {
	level atomic.Int32

	mu    sync.Mutex
	pools []*Pool
}

// Level returns the level.
func (g *Gauge) Level() Level {
	if g == nil {
		return Normal
	}
	return Level(g.level.Load())
}

// Set sets the level, and lets those go on that wait if it has fallen.
func (g *Gauge) Set(to Level) {
	if was := Level(g.level.Swap(int32(to))); to >= was {
		return
	}
	g.mu.Lock()
	pools := g.pools
	g.mu.Unlock()
	for _, p := range pools {
		p.mu.Lock()
		wakes := p.due()
		p.mu.Unlock()
		for _, wake := range wakes {
			wake()
		}
	}
}

// Refusal is what is answered from Tight on to what would begin something.
func (g *Gauge) Refusal() error {
	return core.Refuse(core.Busy, "The gateway's memory is nearly full: it takes nothing new until some is free. Try again later.")
}

// Intercept implements intercept.Interceptor: it refuses what takes memory while there is too little.
func (g *Gauge) Intercept(ctx context.Context, c *intercept.Call) {
	if refusedFrom(c) <= g.Level() {
		c.Fail(g.Refusal())
		return
	}
	c.Next(ctx)
}

// refusedFrom is the level from which on a call is refused. What gives memory back never is.
func refusedFrom(c *intercept.Call) Level {
	switch c.Op {
	case intercept.Send, intercept.Schedule:
		return Tight
	case intercept.Manage:
		if !c.Deletes {
			return Tight
		}
	case intercept.OpenSender, intercept.OpenReceiver, intercept.AcceptSession, intercept.Peek, intercept.ReceiveDeferred:
		return Full
	}
	return Full + 1
}

// Refusing names the pools that have refused somebody since then.
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
