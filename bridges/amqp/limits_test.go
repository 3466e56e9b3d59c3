package amqp

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// The quotas of the Service Bus wire contract, to the last and one past it.
func TestAsManyConnectionsAsTheTierAllows(t *testing.T) {
	t.Parallel()
	limits := core.StandardLimits()
	b := New(newFakeBroker(), nil, &fakeAuthority{}, Options{MaxConnections: limits.MaxConnections, HandshakeTimeout: time.Hour, DrainGrace: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var open sync.WaitGroup
	defer open.Wait()
	defer cancel()
	dial := func() net.Conn {
		client, server := net.Pipe()
		open.Go(func() { _ = b.ServeConn(ctx, server) })
		return client
	}
	for range limits.MaxConnections {
		defer func(c net.Conn) { _ = c.Close() }(dial())
	}
	for deadline := time.Now().Add(time.Minute); b.open.Load() < int64(limits.MaxConnections); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are open, want %d", b.open.Load(), limits.MaxConnections)
		}
	}
	client, server := net.Pipe()
	defer func() { _ = client.Close() }()
	if err := b.ServeConn(ctx, server); !errors.Is(err, core.QuotaExceeded) {
		t.Errorf("one more: got %v, want %v", err, core.QuotaExceeded)
	}
}

func TestABatchDeleteAsksForNoMoreThanTheTierAllows(t *testing.T) {
	t.Parallel()
	for _, limits := range []core.Limits{core.StandardLimits(), core.PremiumLimits()} {
		p := dialPeer(t, serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{MaxPurge: limits.MaxPurge}))
		p.open()
		n := p.node("q1/$management", 0)
		for count, want := range map[int]int32{limits.MaxPurge: 204, limits.MaxPurge + 1: 400} {
			a := n.call(value.Map{{Key: "operation", Value: "com.microsoft:batch-delete-messages"}},
				value.Map{{Key: "message-count", Value: int32(count)}, {Key: "enqueued-time-utc", Value: value.Timestamp(0)}})
			if got := a.get("statusCode"); got != want {
				t.Errorf("%s, %d messages: got %v, want %d", limits.Tier, count, got, want)
			}
			if got := a.get("errorCondition"); want == 400 && got != wire.CondArgumentOutOfRange {
				t.Errorf("%s, %d messages: got %v", limits.Tier, count, got)
			}
		}
	}
}
