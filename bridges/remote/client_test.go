package remote

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func TestAClientSendsAndPeeks(t *testing.T) {
	t.Parallel()
	there := newSite(t, nil)
	there.create(t, "orders")
	there.create(t, "sessions", func(s *core.Settings) { s.RequiresSession = true })
	c, err := Connect(t.Context(), there.options())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, entity := range []string{"orders", "sessions"} {
		ms := every(t)
		for _, m := range ms {
			m.CountHop() // as checkEvery wants it
		}
		for i, err := range c.Send(t.Context(), entity, ms) {
			if err != nil {
				t.Fatalf("%s: message %d: %v", entity, i, err)
			}
		}
		var got []core.Delivery
		for from := int64(0); ; {
			some, err := c.Peek(t.Context(), entity, nil, from, 3)
			if err != nil {
				t.Fatal(err)
			}
			if len(some) == 0 {
				break
			}
			for _, a := range some {
				if a.SequenceNumber != int64(len(got)+1) || a.EnqueuedTime.IsZero() || a.State != core.Active {
					t.Errorf("%s: got %+v for message %d", entity, a.BrokerProperties, len(got)+1)
				}
				if a.AbsoluteExpiryTime.Sub(a.CreationTime) != a.TimeToLive {
					t.Errorf("%s: message %d lives from %v to %v, want %v", entity, len(got)+1, a.CreationTime, a.AbsoluteExpiryTime, a.TimeToLive)
				}
				a.AbsoluteExpiryTime = time.Time{} // of the gateway
				from = a.SequenceNumber + 1
				got = append(got, core.Delivery{Message: a.Message, BrokerProperties: a.BrokerProperties})
			}
		}
		checkEvery(t, got)
	}
	_, err = c.Peek(t.Context(), "none", nil, 0, 1)
	if status, why, ok := Refusal(err); status != http.StatusNotFound || !strings.Contains(why, "could not be found") || !ok {
		t.Errorf("a missing entity: got %v: %d %s", err, status, why)
	}
	_, err = Connect(t.Context(), there.options(func(o *Options) { o.Key = "wrong" }))
	if status, why, _ := Refusal(err); status != http.StatusUnauthorized || !strings.Contains(why, "InvalidSignature") {
		t.Errorf("a wrong key: got %v: %d %s", err, status, why)
	}
	if _, _, ok := Refusal(context.Canceled); ok {
		t.Error("a cancelled call counts as a refusal")
	}
	there.way.cut(true)
	if _, err := c.Peek(t.Context(), "orders", nil, 0, 1); err == nil {
		t.Error("a broken connection peeks")
	}
}
