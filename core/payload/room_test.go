package payload

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a format that takes a second, and counts the payloads that are decoded at the same time.
type slow struct {
	marked
	now, most atomic.Int64
}

func (f *slow) Decode(_ context.Context, _ string, payload []byte) (any, error) {
	f.most.Store(max(f.most.Load(), f.now.Add(1)))
	<-time.After(time.Second)
	f.now.Add(-1)
	return len(payload), nil
}

// Large bodies are decoded at the same time only as far as their decoded forms fit, whether a rule
// or a receiver wants them.
func TestLargeBodiesWaitForRoom(t *testing.T) {
	t.Parallel()
	const size = 100 << 10
	for name, c := range map[string]struct{ room, body, want int }{
		"three fit":          {3 * size * growth, size, 3},
		"one does not fit":   {size, size, 1},
		"small ones need no": {size, smallBody, 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &slow{marked: marked{types: []string{"app/x"}}}
			_, y := formats()
			chain := NewChain(NewRoom(int64(c.room)), Named{"slow", f}, Named{"Y", y})
			m := message("app/x", strings.Repeat("x", c.body))
			for i := range 20 {
				go func() {
					var err error
					if i%2 == 0 {
						_, err = chain.Body(m)
					} else {
						_, err = chain.Transcode(t.Context(), m, ParseAccept("app/y"), false)
					}
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}()
			}
			time.Sleep(time.Hour)
			if got := int(f.most.Load()); got != c.want {
				t.Errorf("%s: %d at the same time, want %d", name, got, c.want)
			}
		})
	}
}
