package websocket

import (
	"context"
	"sync"
)

// connGroup counts connections until it closes, and waits for them. HTTP servers do not wait for
// connections that were upgraded.
type connGroup struct {
	ctx  context.Context // of all connections; ends when they are to drain
	stop context.CancelFunc

	mu      sync.Mutex
	closed  bool
	members sync.WaitGroup // grows only while closed is false
}

func newConnGroup() *connGroup {
	g := &connGroup{}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// enter counts a connection, or says why it may not come in.
func (g *connGroup) enter() (refusal string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return stoppingText
	}
	g.members.Add(1)
	return ""
}

// done is the reverse of enter.
func (g *connGroup) done() { g.members.Done() }

// drainAfter waits for ctx to end, closes the group, has its connections drain, and returns when they
// have ended.
func (g *connGroup) drainAfter(ctx context.Context) {
	<-ctx.Done()
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.stop()
	g.members.Wait()
}
