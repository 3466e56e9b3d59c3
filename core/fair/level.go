package fair

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Level says how much of its memory the process uses. What is under way goes on at every level, and so does
// what gives memory back: settlements, renewals, deletions, detaches, and receivers, to whom a little is
// delivered at every level, lest a full store stay full.
type Level int32

// The levels.
const (
	Normal Level = iota
	Raised       // more than half is used: nothing is refused
	Tight        // sends, schedules, deposits and creations are refused as busy to those that have sent much of late
	Full         // they are refused to everybody, and so are peeks, streams and taps
)

// String names the level as health and metrics do.
func (l Level) String() string { return [...]string{"normal", "raised", "tight", "full"}[l] }

// Gauge holds the Level of the process. It is safe for concurrent use. A nil Gauge is at Normal.
type Gauge struct {
	level atomic.Int32

	forgot time.Time // when a part of the flows was forgotten last; that of the goroutine that sets the level

	mu    sync.Mutex
	pools []*Pool
}

// forgetInterval is how often a part of what was sent is forgotten: one in forgetPart.
const forgetInterval, forgetPart = 250 * time.Millisecond, 32

// Level returns the level.
func (g *Gauge) Level() Level {
	if g == nil {
		return Normal
	}
	return Level(g.level.Load())
}

// Set sets the level, and lets those go on that wait if it has fallen. It is called again and again: what
// somebody has sent is forgotten by it, in about ten seconds.
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
		var wakes []func()
		p.mu.Lock()
		if forgets {
			p.forgetFlow()
		}
		if to < was {
			wakes = p.due()
		}
		p.mu.Unlock()
		for _, wake := range wakes {
			wake()
		}
	}
}

// Refusal is what is answered from Tight on to what would begin something.
func (g *Gauge) Refusal() error {
	return core.Refuse(core.Busy, "The gateway's memory is nearly full. Try again later.")
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
