package e2e

import (
	"bytes"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"
)

// TestReceiverWithCreditGetsEverythingWithoutAsking gives credit once, as .NET's and JavaScript's receivers of many
// messages do, and gives none and settles nothing until all that it covers has come.
func TestReceiverWithCreditGetsEverythingWithoutAsking(t *testing.T) {
	everywhere(t, func(e *env) {
		session := e.amqp()
		for _, c := range []struct {
			stocked, size, credit int
			mode                  amqp.SenderSettleMode
		}{
			{900, 20_000, 900, amqp.SenderSettleModeSettled},
			{300, 60_000, 400, amqp.SenderSettleModeUnsettled},
			{12, 3_000_000, 10, amqp.SenderSettleModeSettled},
		} {
			queue := e.queue(&admin.QueueProperties{MaxMessageSizeInKilobytes: new(int64(4096))})
			s, err := session.NewSender(e.ctx(), queue, nil)
			if err != nil {
				e.Fatal(err)
			}
			body := bytes.Repeat([]byte("x"), c.size)
			var sends sync.WaitGroup
			places := make(chan struct{}, 20)
			for range c.stocked {
				places <- struct{}{}
				sends.Go(func() {
					defer func() { <-places }()
					if err := s.Send(e.ctx(), amqp.NewMessage(body), nil); err != nil {
						e.Error(err)
					}
				})
			}
			sends.Wait()
			r, err := session.NewReceiver(e.ctx(), queue, &amqp.ReceiverOptions{Credit: -1, RequestedSenderSettleMode: c.mode.Ptr()})
			if err != nil {
				e.Fatal(err)
			}
			if err := r.IssueCredit(uint32(c.credit)); err != nil {
				e.Fatal(err)
			}
			for got := range min(c.stocked, c.credit) {
				if _, err := r.Receive(e.ctx(), nil); err != nil {
					e.Fatalf("%+v: got %d messages: %v", c, got, err)
				}
			}
			_ = r.Close(e.ctx())
		}
	})
}
