package amqp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// TestReceiverWithCreditGetsWhatTheQueueHolds gives credit once, says nothing more about the link, and opens the session
// window frame by frame or as widely as clients do: whatever the sizes, all that the credit covers comes.
func TestReceiverWithCreditGetsWhatTheQueueHolds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		size := 1 << random.IntN(21)
		stocked := 1 + random.IntN(min(1500, 40<<20/size))
		credit := 1 + random.IntN(1500)
		window := uint32(1) << random.IntN(14)
		mode := []wire.SenderSettleMode{wire.SenderSettled, wire.SenderMixed}[random.IntN(2)]
		t.Run(fmt.Sprintf("%d of %d bytes, credit %d, window %d, mode %v", stocked, size, credit, window, mode), func(t *testing.T) {
			t.Parallel()
			b := newFakeBroker("q1")
			m, err := decodeMessage(plainMessage(size))
			if err != nil {
				t.Fatal(err)
			}
			for range stocked {
				(&fakeSender{q: b.queues["q1"]}).Send(t.Context(), [][]*core.Message{{m}})
			}
			bubble(t, b, &fakeAuthority{}, Options{}, func(p *peer, _ context.CancelFunc) {
				p.open()
				p.send(1, &wire.Begin{IncomingWindow: window, OutgoingWindow: 100})
				await[*wire.Begin](p)
				p.send(1, &wire.Attach{
					Name: "r", Role: wire.RoleReceiver, SndSettleMode: value.Some(mode),
					Source: &wire.Source{Address: value.Some("q1")}, Target: &wire.Target{},
				})
				await[*wire.Attach](p)
				p.send(1, &wire.Flow{
					NextIncomingID: value.Some(uint32(0)), IncomingWindow: window, OutgoingWindow: 100,
					Handle: value.Some(uint32(0)), DeliveryCount: value.Some(uint32(0)), LinkCredit: value.Some(uint32(credit)),
				})
				got, want, frames := 0, min(stocked, credit), uint32(0)
				for got < want {
					tr := await[*wire.Transfer](p)
					if frames++; tr == nil { // the connection is idle, and closed for that
						break
					}
					if !tr.More {
						got++
					}
					if frames%window == 0 {
						p.send(1, &wire.Flow{NextIncomingID: value.Some(frames), IncomingWindow: window, OutgoingWindow: 100})
					}
				}
				if got != want {
					t.Errorf("got %d messages, want %d", got, want)
				}
			})
		})
	}
}
