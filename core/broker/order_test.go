package broker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// Real time: several gateways forward from one queue at once, over a store that
// takes a while, and the messages keep their order.
func TestGatewaysThatForwardTogetherKeepTheOrder(t *testing.T) {
	t.Parallel()
	const messages = 3000
	store := &leisurely{memory.New(memory.Options{})}
	var gateways []*gateway
	for range 3 {
		gateways = append(gateways, startGateway(store))
	}
	defer func() {
		for _, g := range gateways {
			g.end()
		}
	}()
	s := newStarted(gateways[0].Broker, &faulty{Store: store}, nil)
	s.create(t, "to")
	s.create(t, "from", forwardTo("to"))
	var got []string
	all := make(chan struct{})
	r, err := gateways[0].OpenReceiver(t.Context(), root, core.At("to"), core.ReceiverOptions{Mode: core.ReceiveAndDelete, Deliver: func(ds []core.Delivery) {
		for _, d := range ds {
			got = append(got, string(d.Body.Bytes))
		}
		if len(got) == messages {
			close(all)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.AddCredit(messages, core.AnyMessage)
	for i := 0; i < messages; i += 20 {
		var ms []*core.Message
		for j := range 20 {
			ms = append(ms, text(fmt.Sprint(i+j)))
		}
		s.send(t, "from", ms...)
	}
	select {
	case <-all:
	case <-time.After(time.Minute):
		t.Fatalf("%d messages arrived", len(got))
	}
	for i, body := range got {
		if body != fmt.Sprint(i) {
			t.Fatalf("message %d is %s", i, body)
		}
	}
}

// leisurely is a store that takes a while to append for forwarders.
type leisurely struct{ core.Store }

// Partition wraps the operations on a partition.
func (s *leisurely) Partition(r core.Ref, p core.Policy) core.Partition {
	return core.Partition{Ref: r, Policy: p, Operations: leisurelyPartition{s.Store.Partition(r, p), s}}
}

// leisurelyPartition is a partition of a leisurely.
type leisurelyPartition struct {
	core.Partition
	*leisurely
}

func (s leisurelyPartition) Append(ctx context.Context, groups [][]*core.Message) []core.Appended {
	if groups[0][0].Transit != nil {
		time.Sleep(time.Duration(len(groups)) * 10 * time.Microsecond)
	}
	return s.Operations.Append(ctx, groups)
}
