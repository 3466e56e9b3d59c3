package websocket

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

func TestALargeMessageArrives(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		h.queue("q", func(s *core.Settings) { s.MaxMessageSizeInKilobytes = core.MaxMessageSizeKB })
		tx, err := h.broker.OpenSender(context.Background(), root, core.At("q"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Close()
		for _, size := range []int{fair.Pending + 1, 10, fair.Pending / 2, fair.Pending / 2, 10} {
			if a := tx.Send(context.Background(), [][]*core.Message{{{Body: core.Body{Bytes: make([]byte, size)}}}}); a[0].Err != nil {
				t.Fatal(a[0].Err)
			}
		}
		p := h.dial(protocolPack)
		p.ok("auth", object{"token": rootToken})
		p.ok("feed", object{"feed": 1, "entity": "q", "credit": 5})
		for i, m := range p.deliveries(1, 5) {
			if b := broke(m); b["SequenceNumber"] != int64(i+1) || b["DeliveryCount"] != int64(1) {
				t.Errorf("message %d: got %v", i, b)
			}
		}
	})
}

// TestNothingIsLostAmongClientsThatComeAndGo has receivers vanish at any moment,
// and checks that every message that was sent is completed by somebody, and that
// none is delivered again after that.
func TestNothingIsLostAmongClientsThatComeAndGo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const senders, each, receivers = 3, 200, 4
		h := openHouse(t, Options{})
		h.queue("q", func(s *core.Settings) {
			s.LockDuration, s.MaxDeliveryCount = 5*time.Second, core.MaxMaxDeliveryCount
		})
		var mu sync.Mutex
		completed := map[string]int{}
		done := make(chan struct{})
		var runs sync.WaitGroup
		for s := range senders {
			runs.Go(func() {
				p := h.connect()
				for i := range each {
					p.ok("send", object{"entity": "q", "messages": []object{{"text": fmt.Sprintf("%d-%d", s, i)}}})
					time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
				}
			})
		}
		for r := range receivers {
			protocol := []string{protocolJSON, protocolPack}[r%2]
			runs.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
						h.visit(protocol, func(text string) {
							mu.Lock()
							defer mu.Unlock()
							if completed[text]++; len(completed) == senders*each {
								close(done)
							}
						})
					}
				}
			})
		}
		runs.Wait()
		for text, n := range completed {
			if n != 1 {
				t.Errorf("%s was completed %d times", text, n)
			}
		}
		if left := h.connect().ok("peek", object{"entity": "q"})["messages"].([]any); len(left) > 0 {
			t.Errorf("%d messages are left", len(left))
		}
	})
}

// visit receives and completes some messages, and vanishes in the middle of it.
func (h *house) visit(protocol string, completed func(text string)) {
	h.tb.Helper()
	p := h.dial(protocol)
	defer func() { _ = p.ws.Close() }()
	p.ok("auth", object{"token": rootToken})
	p.ok("feed", object{"feed": 1, "entity": "q", "credit": 1 + rand.IntN(20)})
	leave := time.After(time.Duration(rand.IntN(3000)) * time.Millisecond)
	for {
		var f object
		if len(p.kept) > 0 { // came between answers
			f, p.kept = p.kept[0], p.kept[1:]
		} else {
			select {
			case next := <-p.in:
				f = p.decode(next)
			case <-leave:
				return
			}
		}
		for _, m := range f["messages"].([]any) {
			if rand.IntN(20) == 0 {
				return
			}
			m := m.(object)
			settled := p.ok("settle", object{"feed": 1, "settlements": []object{settlement(m, "complete")}})
			if settled["results"].([]any)[0] == nil {
				completed(m["text"].(string))
			}
			p.ok("credit", object{"feed": 1, "credit": 1})
		}
	}
}
