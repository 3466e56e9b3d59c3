package websocket

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/intercept"
)

// locking is a stage that holds a lock while it passes messages on, and takes it to close.
type locking struct {
	mu       sync.Mutex
	meantime func() // runs before messages are passed on
}

func (l *locking) Intercept(ctx context.Context, c *intercept.Call) {
	if c.Op == intercept.AcceptSession {
		inner := c.Options.Deliver
		c.Options.Deliver = func(ds []core.Delivery) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.meantime()
			inner(ds)
		}
		c.Link.Add(l)
	}
	c.Next(ctx)
}

func (l *locking) Drained(then func()) { then() }

func (l *locking) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
}

// Jobs of the connection also run in the goroutine that delivers: one may end the feed whose messages
// it delivers.
func TestAFeedEndsWhileItsSessionDelivers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		h.queue("s", func(s *core.Settings) { s.RequiresSession = true })
		var stage locking
		h.bridge.front = intercept.New(&intercept.Space{Broker: h.broker, Admin: h.broker}, &stage)
		p := h.connect()
		p.ok("feed", object{"feed": 1, "entity": "s", "session": "1"})
		c := slices.Collect(h.bridge.opts.Clients.All())[0].(*conn)
		ended := make(chan struct{})
		stage.meantime = func() {
			defer close(ended)
			synctest.Wait()     // until no goroutine runs jobs
			c.Owner.Do(func() { // it runs here, and so does what others bring meanwhile
				brought := make(chan struct{})
				go func() {
					defer close(brought)
					c.Owner.Do(func() { c.feeds[1].stop(nil) })
				}()
				<-brought
			})
		}
		p.ok("send", object{"entity": "s", "messages": []object{inSession("1", "m")}})
		p.ok("credit", object{"feed": 1, "credit": 1})
		<-ended
		again := h.connect()
		again.ok("feed", object{"feed": 1, "entity": "s", "session": "1"})
	})
}
