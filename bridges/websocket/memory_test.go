package websocket

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

func TestAFrameHoldsNoMoreThanItsEntityTakes(t *testing.T) {
	for name, head := range map[string]string{
		"send":             `{"op":"send","id":9,"entity":"q","messages":[{"text":"`,
		"state":            `{"op":"setState","id":9,"feed":1,"state":"`,
		"no entity so far": `{"op":"send","id":9,"messages":[{"text":"`,
		"unknown entity":   `{"op":"send","id":9,"entity":"none","messages":[{"text":"`,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				memory := fair.New(0, nil, nil)
				h := openHouse(t, Options{Pools: fair.Pools{Budget: memory}}, "q")
				p := h.connect()
				p.ok("feed", object{"feed": 1, "entity": "q"})
				most := int64(messagesOfFrame * core.DefaultMessageSizeKB << 10)
				w, err := p.ws.NextWriter(websocket.TextMessage)
				if err != nil {
					t.Fatal(err)
				}
				for part, n := head, int64(0); n < 2*most && err == nil; part = strings.Repeat("x", 60_000) {
					_, err = w.Write([]byte(part)) // it fails once the gateway has closed
					n += int64(len(part))
					synctest.Wait()
					if s := memory.Stats(); s.Held > most {
						t.Fatalf("%d bytes are held, more than the %d that a frame may have", s.Held, most)
					}
				}
				if code := p.closed(); code != int(closeTooLarge) {
					t.Errorf("got close %d, want %d", code, closeTooLarge)
				}
				synctest.Wait()
				if s := memory.Stats(); s.Held != 0 {
					t.Errorf("%d bytes are held afterwards", s.Held)
				}
			})
		})
	}
}

func TestStalledFrameIsAbandoned(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		memory := fair.New(0, nil, nil)
		h := openHouse(t, Options{Pools: fair.Pools{Budget: memory}}, "q")
		p := h.connect()
		w, err := p.ws.NextWriter(websocket.TextMessage)
		if err == nil {
			_, err = w.Write([]byte(strings.Repeat(" ", 100_000)))
		}
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := memory.Stats(); s.Held < 90_000 {
			t.Errorf("%d bytes are held of a frame of 100,000 or more", s.Held)
		}
		began := time.Now()
		if code := p.closed(); code != int(closeTooSlow) || time.Since(began) != fair.Grace {
			t.Errorf("got close %d after %v, want %d after %v", code, time.Since(began), closeTooSlow, fair.Grace)
		}
		synctest.Wait()
		if s := memory.Stats(); s.Held != 0 {
			t.Errorf("%d bytes are held afterwards", s.Held)
		}
	})
}

func TestAFrameWaitsForMemoryAndIsThenRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		memory := fair.New(1<<20, nil, nil)
		h := openHouse(t, Options{Pools: fair.Pools{Budget: memory}}, "q")
		p := h.connect()
		other := memory.Share(func() {})
		defer other.Close()
		other.Add(1 << 20)
		id := p.send("send", object{"entity": "q", "messages": []object{{"text": "patient"}}})
		synctest.Wait()
		if s := memory.Stats(); s.Waiting != 1 {
			t.Errorf("a frame without memory: got %+v, want it to wait", s)
		}
		other.Add(-1 << 20)
		if f := p.answer(id); f["op"] != "ok" {
			t.Errorf("once there is memory: got %v", f)
		}
		synctest.Wait()
		other.Add(1 << 20)
		began := time.Now()
		p.send("send", object{"entity": "q", "messages": []object{{"text": "refused"}}})
		if code := p.closed(); code != int(closeBusy) || time.Since(began) != fair.Patience {
			t.Errorf("got close %d after %v, want %d after %v", code, time.Since(began), closeBusy, fair.Patience)
		}
		synctest.Wait()
		if s := memory.Stats(); s.Held != 1<<20 || s.Refused != 1 {
			t.Errorf("in the end: got %+v", s)
		}
	})
}

func TestWithoutMemoryFeedsLeaveMessagesInTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		memory := fair.New(1<<20, nil, nil)
		h := openHouse(t, Options{Pools: fair.Pools{Budget: memory}}, "q")
		p := h.connect()
		p.fill("q", 1)
		other := memory.Share(func() {})
		defer other.Close()
		other.Join(fair.Who{Namespace: "other"})
		p.ok("feed", object{"feed": 1, "entity": "q", "mode": "receiveAndDelete"})
		other.Add(1<<20 - 16<<10) // a request has room, not a message
		p.ok("credit", object{"feed": 1, "credit": 1})
		synctest.Wait()
		if got := p.kept; len(got) != 0 || len(p.in) != 0 {
			t.Errorf("without memory were delivered %v and %d frames", got, len(p.in))
		}
		other.Add(-1<<20 + 16<<10)
		if got := p.deliveries(1, 1); got[0]["text"] != "0" {
			t.Errorf("once there is memory: got %v", got)
		}
	})
}
