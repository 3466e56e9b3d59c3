package websocket

import (
	"context"
	"sync"
)

// gate lets connections in until it closes. HTTP servers know nothing of
// connections that were upgraded, so somebody else has to wait for them.
type gate struct {
	ctx  context.Context // of all that are inside; ends when they are to drain
	stop context.CancelFunc

	mu     sync.Mutex
	closed bool
	inside sync.WaitGroup // grows only while closed is false
}

func newGate() *gate {
	g := &gate{}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// enter counts a connection, unless no more are wanted.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside.Add(1)
	return true
}

// leave is the reverse of enter.
func (g *gate) leave() { g.inside.Done() }

// attend waits for ctx to end, closes the gate, has those inside drain, and
// returns when they have left.
func (g *gate) attend(ctx context.Context) {
	<-ctx.Done()
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.stop()
	g.inside.Wait()
}
