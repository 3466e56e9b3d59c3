package broker

import (
	"context"
	"sync/atomic"
)

// gate is what everybody goes through who takes messages out of entities without
// being asked to at that moment: workers, holders of sessions, partition forwarders. While it is
// shut nobody is inside.
type gate struct {
	inside atomic.Int64
	bar    atomic.Pointer[bar] // nil while it is open
	left   chan struct{}       // somebody left a gate that was shut; holds at most one
	keeper chan struct{}       // holds one while nobody shuts it
	rush   atomic.Pointer[rush]
}

// bar keeps a gate shut.
type bar struct{ lifted chan struct{} }

// rush ends when the gate is shut the next time.
type rush struct {
	context.Context
	cancel context.CancelFunc
}

func newGate() *gate {
	g := &gate{left: make(chan struct{}, 1), keeper: make(chan struct{}, 1)}
	g.keeper <- struct{}{}
	g.relax()
	return g
}

// relax begins another rush.
func (g *gate) relax() {
	ctx, cancel := context.WithCancel(context.Background())
	g.rush.Store(&rush{ctx, cancel})
}

// enter waits until the gate is open. Whoever has entered must leave, and must not
// enter again before.
func (g *gate) enter() {
	for {
		g.inside.Add(1)
		b := g.bar.Load()
		if b == nil {
			return
		}
		g.leave()
		<-b.lifted
	}
}

func (g *gate) leave() {
	if g.inside.Add(-1) == 0 && g.bar.Load() != nil {
		select {
		case g.left <- struct{}{}:
		default:
		}
	}
}

// hurry is a context that ends when the gate is to be shut, for those inside who
// would take long.
func (g *gate) hurry() context.Context { return g.rush.Load() }

// shut lets nobody in any more, and waits until all have left. Unless it fails
// because ctx has ended the caller must open the gate.
func (g *gate) shut(ctx context.Context) error {
	select {
	case <-g.keeper:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	g.bar.Store(&bar{make(chan struct{})})
	g.rush.Load().cancel()
	for g.inside.Load() > 0 {
		select {
		case <-g.left:
		case <-ctx.Done():
			g.open()
			return context.Cause(ctx)
		}
	}
	return nil
}

func (g *gate) open() {
	g.relax()
	close(g.bar.Swap(nil).lifted)
	g.keeper <- struct{}{}
}
