package amqp

import (
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/value"
)

// The quotas of the Service Bus wire contract, to the last and one past it.
func TestAsManyConnectionsAsTheTierAllows(t *testing.T) {
	t.Parallel()
	limits := core.StandardLimits()
	b := New(newFakeBroker(), &fakeAuthority{}, Options{MaxConnections: limits.MaxConnections, HandshakeTimeout: time.Hour, DrainGrace: time.Millisecond})
	for i := range limits.MaxConnections {
		if _, err := b.shared.Places.Open(fair.Who{Namespace: "ns", Policy: strconv.Itoa(i)}, 1); i < limits.MaxConnections*3/4 && err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; !b.shared.Places.Exhausted(); i++ { // a namespace leaves a part for others
		if _, err := b.shared.Places.Open(fair.Who{Namespace: strconv.Itoa(i)}, 1); err != nil {
			t.Fatal(err)
		}
	}
	client, server := net.Pipe()
	defer func() { _ = client.Close() }()
	if err := b.ServeConn(t.Context(), server); !errors.Is(err, core.QuotaExceeded) {
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
