package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// Messages are moved from one queue to another, each in a transaction, while
// gateways and Redis fail: in the end each must have arrived once.
func TestTransactionsAreAllOrNothingInChaos(t *testing.T) {
	t.Parallel()
	needProton(t)
	faults, seed := numberFrom(t, killsVariable, 6), numberFrom(t, seedVariable, rand.Int64())
	t.Logf("%s=%d %s=%d", killsVariable, faults, seedVariable, seed)
	s := newStorm(t, seed)
	e := &env{T: t, gw: s.gateways[0], plain: true}
	settings := &admin.QueueProperties{LockDuration: new("PT5S"), MaxDeliveryCount: new(int32(2000))}
	from, to := e.queue(settings), e.queue(settings)
	const messages = 500
	sender, err := e.client().NewSender(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	for first := 0; first < messages; first += 250 {
		batch, err := sender.NewMessageBatch(e.ctx(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 250 {
			if err := batch.AddMessage(&azservicebus.Message{MessageID: new(fmt.Sprint(first + i))}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := sender.SendMessageBatch(e.ctx(), batch, nil); err != nil {
			t.Fatal(err)
		}
	}

	moving, stop := context.WithCancel(t.Context())
	var movers sync.WaitGroup
	said := make([]bytes.Buffer, 3)
	for i := range said {
		movers.Go(func() {
			mover := exec.CommandContext(moving, systemPython, filepath.Join("testdata", "proton", "mover.py"),
				devPolicy, devKey, from, to, "amqp://"+s.gateways[0].host, "amqp://"+s.gateways[1].host)
			mover.Stdout, mover.Stderr = &said[i], &said[i]
			if err := mover.Run(); moving.Err() == nil { // else it was killed
				t.Errorf("mover %d ended: %v", i, err)
			}
		})
	}
	t.Cleanup(func() {
		stop()
		movers.Wait()
		for i := range said {
			if t.Failed() {
				t.Logf("mover %d: %s", i, &said[i])
			}
		}
	})
	for range faults {
		time.Sleep(s.between(200*time.Millisecond, 1700*time.Millisecond)) // random moments are what this is about
		s.strike()
	}
	t.Logf("faults: %v", s.happened)
	for _, g := range s.gateways {
		e.eventually("the gateway is healthy after the last fault", func() bool { return g.health() == nil })
	}
	// The movers need what time they need, as long as they move something.
	for active := int32(messages); active > 0; {
		before := active
		e.eventually(fmt.Sprintf("one of the last %d messages is taken", before), func() bool {
			active = e.runtime(from).ActiveMessageCount
			return active < before
		})
	}
	e.eventually("everything has arrived", func() bool { return e.runtime(from).TotalMessageCount == 0 })
	stop()
	movers.Wait()
	arrived := map[string]int{}
	receiver, err := e.client().NewReceiverForQueue(to, nil)
	if err != nil {
		t.Fatal(err)
	}
	for next := int64(0); ; {
		ms, err := receiver.PeekMessages(e.ctx(), 1000, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &next})
		if err != nil {
			t.Fatal(err)
		}
		if len(ms) == 0 {
			break
		}
		for _, m := range ms {
			arrived[m.MessageID]++
			next = *m.SequenceNumber + 1
		}
	}
	for i := range messages {
		if n := arrived[fmt.Sprint(i)]; n != 1 {
			t.Errorf("message %d arrived %d times", i, n)
		}
	}
	if len(arrived) != messages {
		t.Errorf("got %d different messages, want %d", len(arrived), messages)
	}
}
