package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// Several receivers at several gateways get no more messages than the rate of their queue allows, whatever
// gateway they are at, and no failed delivery is counted. A gateway that allows more does not speed up others.
func TestARateHoldsAtAllGateways(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "crosstown.yaml")
	const limits = "rate-limits: [{entity: limited*, rate: 20/s, burst: 2}]\n"
	if err := os.WriteFile(file, []byte(limits), 0o600); err != nil {
		t.Fatal(err)
	}
	store := redistest.Start(t, redistest.Options{}).URL()
	gateways := []*gateway{own(t, store, "--config="+file), own(t, store, "--config="+file)}
	e := &env{T: t, gw: gateways[0], plain: true}
	e.create("limited", nil)
	const messages = 30
	for range messages {
		e.send("limited", "m")
	}
	counts := make(chan uint32, messages)
	began := time.Now()
	for i := range 4 {
		at := &env{T: t, gw: gateways[i%2], plain: true}
		r := at.receiver("limited")
		go func() {
			for len(counts) < messages {
				ms, err := r.ReceiveMessages(at.ctx(), 5, nil)
				if err != nil {
					return
				}
				for _, m := range ms {
					if r.CompleteMessage(at.ctx(), m, nil) == nil {
						counts <- m.DeliveryCount
					}
				}
			}
		}()
	}
	for range messages {
		select {
		case n := <-counts:
			if n != 1 {
				t.Errorf("delivery %d", n)
			}
		case <-time.After(time.Minute):
			t.Fatal("messages are missing")
		}
	}
	if took, least := time.Since(began), (messages-2)*time.Second/20-clockSlack; took < least {
		t.Errorf("%d messages in %v, want at least %v", messages, took, least)
	}
	if out := e.crosstown("queue", "show", "limited", "--json"); !strings.Contains(out, `"rateLimit":"20/s, burst 2"`) {
		t.Errorf("queue show: got %s", out)
	}
}
