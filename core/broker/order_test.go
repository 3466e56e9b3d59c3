package broker

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// A gateway gives back messages that it could not move, and another gateway takes them. Until that one has
// moved them, the first does not move newer ones.
func TestMessagesThatAGatewayGaveBackAreNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		client := newStarted(New(store, Options{Namespace: "ns"}), &faulty{Store: store}, nil)
		client.create(t, "to")
		client.create(t, "from", forwardTo("to"))
		var failing atomic.Value // the call of the first gateway that fails
		failing.Store("append")
		first := startGateway(store)
		defer first.end()
		first.store.set(func(call string) (before, after bool) { return call == failing.Load(), false })
		client.send(t, "from", numbered(3)...)
		synctest.Wait() // the first gateway holds all three
		failing.Store("lock")
		second := startGateway(store)
		defer second.end()
		moves := make(chan struct{})
		second.store.set(func(call string) (before, after bool) {
			if call == "append" {
				<-moves
			}
			return false, false
		})
		time.Sleep(time.Second) // the first has given them back, the second moves them
		failing.Store("")
		client.send(t, "from", text("3"))
		time.Sleep(2 * time.Second)
		close(moves)
		time.Sleep(10 * time.Second)
		var got []string
		ms, err := client.Peek(t.Context(), root, core.At("to"), nil, 0, 10)
		for i := range ms {
			got = append(got, string(ms[i].Body.Bytes))
		}
		if want := []string{"0", "1", "2", "3"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("the order is %v, %v, want %v", got, err, want)
		}
	})
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
