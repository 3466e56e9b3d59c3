package payload

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

// TestEveryMessageGoesOneWay has receivers come and go, with little credit, while
// a tenth of the messages cannot be decoded.
func TestEveryMessageGoesOneWay(t *testing.T) {
	for _, mode := range []core.ReceiveMode{core.PeekLock, core.ReceiveAndDelete} {
		t.Run([]string{"peek-lock", "receive and delete"}[mode], func(t *testing.T) {
			x, y := formats()
			inBubble(t, Options{Entities: map[string]Entity{"q": {Chain: chainOf(x, y), Deliver: "app/y"}}}, func(h *house) {
				const n = 1000
				var good, bad []string
				var ms []*core.Message
				for i := range n {
					text := fmt.Sprintf("x:%04d", i)
					if i%10 == 0 {
						text = fmt.Sprintf("broken:%04d", i)
						bad = append(bad, text)
					} else {
						good = append(good, "y"+text[1:])
					}
					ms = append(ms, message("app/x", text))
				}
				h.send("q", ms...)
				var mu sync.Mutex
				var got []string
				var receiving sync.WaitGroup
				for range 4 {
					receiving.Go(func() {
						for some := 1; some > 0; {
							some = h.takeSome(mode, func(d core.Delivery) {
								mu.Lock()
								defer mu.Unlock()
								got = append(got, string(d.Body.Bytes))
							})
						}
					})
				}
				receiving.Wait()
				slices.Sort(got)
				if !slices.Equal(got, good) {
					h.t.Errorf("got %d messages, want %d, each once", len(got), len(good))
				}
				in, r := h.receive("q/$DeadLetterQueue", core.ReceiveAndDelete, "", n)
				defer r.Close()
				var dead []string
				for _, d := range in.take() {
					dead = append(dead, string(d.Body.Bytes))
				}
				slices.Sort(dead)
				if !slices.Equal(dead, bad) {
					h.t.Errorf("dead letters: got %s, want %s", strings.Join(dead, " "), strings.Join(bad, " "))
				}
			})
		})
	}
}

// takeSome opens a receiver, drains 7 messages, and completes them if they are
// locked. It returns 0 once the queue is empty.
func (h *house) takeSome(mode core.ReceiveMode, each func(core.Delivery)) int {
	h.t.Helper()
	const credit = 7
	in := new(inbox)
	r, err := h.OpenReceiver(h.t.Context(), root, core.At("q"), core.ReceiverOptions{Mode: mode, Deliver: in.deliver})
	if err != nil {
		h.t.Error(err)
		return 0
	}
	r.AddCredit(credit, core.AnyMessage)
	drained := make(chan int, 1)
	r.Drain(func(unspent int) { drained <- unspent })
	unspent := <-drained
	r.Close()
	in.mu.Lock()
	ds := in.got
	in.mu.Unlock()
	if unspent+len(ds) != credit {
		h.t.Errorf("%d messages and %d credit back, of %d", len(ds), unspent, credit)
	}
	for _, d := range ds {
		each(d)
		if mode == core.PeekLock {
			if err := h.Settle(h.t.Context(), root, core.At("q"), []core.Settlement{{Token: d.LockToken}})[0]; err != nil {
				h.t.Error(err)
			}
		}
	}
	left, err := h.inner.Peek(h.t.Context(), root, core.At("q"), nil, 1, 1)
	if err != nil {
		h.t.Error(err)
	}
	return len(left)
}
