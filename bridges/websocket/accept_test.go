package websocket

import (
	"context"
	"testing"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
)

// listening notes what receivers accept.
type listening struct {
	bridges.Front
	accept chan string
}

func (l listening) OpenReceiver(ctx context.Context, id core.Identity, address core.Address, o core.ReceiverOptions) (core.Receiver, error) {
	l.accept <- o.Accept
	return l.Front.OpenReceiver(ctx, id, address, o)
}

func (l listening) AcceptSession(ctx context.Context, id core.Identity, address core.Address, o core.SessionOptions) (core.Session, error) {
	l.accept <- o.Accept
	return l.Front.AcceptSession(ctx, id, address, o)
}

func TestAFeedSaysWhatTheClientAccepts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		h.queue("s", func(s *core.Settings) { s.RequiresSession = true })
		l := listening{h.bridge.front, make(chan string, 1)}
		h.bridge.front = l
		p := h.connect()
		p.ok("feed", object{"feed": 1, "entity": "q"})
		if got := <-l.accept; got != "" {
			t.Errorf("got %q, want nothing", got)
		}
		p.ok("feed", object{"feed": 2, "entity": "q", "accept": "application/json, text/*;q=0.5"})
		if got := <-l.accept; got != "application/json, text/*;q=0.5" {
			t.Errorf("got %q", got)
		}
		p.ok("feed", object{"feed": 3, "entity": "s", "session": "1", "accept": "application/json"})
		if got := <-l.accept; got != "application/json" {
			t.Errorf("in a session: got %q", got)
		}
		p.refused("feed", object{"feed": 4, "entity": "q", "accept": 5}, core.InvalidArgument)
	})
}
