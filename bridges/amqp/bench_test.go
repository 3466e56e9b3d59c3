package amqp

import (
	"fmt"
	"testing"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// BenchmarkSend sends 1 KiB messages to a broker that forgets them, 100 at a time, and waits for their outcomes.
func BenchmarkSend(b *testing.B) {
	forgetful := func() bridges.Front {
		broker := newFakeBroker("q1")
		broker.queues["q1"].forget = true
		return broker
	}
	overEach(b, forgetful, func(b *testing.B, p *peer) {
		p.attach(0, wire.RoleSender, "q1")
		await[*wire.Flow](p)
		message := plainMessage(1024)
		burst := make([]byte, 0, 200_000)
		id := uint32(0)
		tag := []byte{1, 2, 3, 4}
		t := &wire.Transfer{DeliveryTag: tag, MessageFormat: value.Some(uint32(0))}
		for b.Loop() {
			burst = burst[:0]
			for range 100 {
				t.DeliveryID = value.Some(id)
				burst, _ = wire.AppendFrame(burst, 0, t, message)
				id++
			}
			p.write(burst)
			for {
				d := await[*wire.Disposition](p)
				if d.Last.Or(d.First) == id-1 {
					break
				}
			}
		}
	})
}

// BenchmarkReceive receives 1 KiB messages, 100 at a time, and accepts them.
func BenchmarkReceive(b *testing.B) {
	endless := func() bridges.Front {
		broker := newFakeBroker("q1")
		q := broker.queues["q1"]
		q.forget = true
		m, err := decodeMessage(plainMessage(1024))
		if err != nil {
			b.Fatal(err)
		}
		q.ready = []core.Delivery{{Message: m, BrokerProperties: core.BrokerProperties{SequenceNumber: 1}}}
		return broker
	}
	overEach(b, endless, func(b *testing.B, p *peer) {
		p.attach(0, wire.RoleReceiver, "q1")
		id := uint32(0)
		for b.Loop() {
			p.send(0, &wire.Flow{
				NextIncomingID: value.Some(id), IncomingWindow: 5000, OutgoingWindow: 1,
				Handle: value.Some(uint32(0)), DeliveryCount: value.Some(id), LinkCredit: value.Some(uint32(100)),
			})
			for range 100 {
				await[*wire.Transfer](p)
			}
			p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: id, Last: value.Some(id + 99), State: wire.Accepted{}})
			id += 100
			for {
				if d := await[*wire.Disposition](p); d.Last.Or(d.First) == id-1 {
					break
				}
			}
		}
	})
}

// BenchmarkAppendDelivery encodes a delivery of 1 KiB.
func BenchmarkAppendDelivery(b *testing.B) {
	b.ReportAllocs()
	m, err := decodeMessage(plainMessage(1024))
	if err != nil {
		b.Fatal(err)
	}
	d := core.Delivery{Message: m, BrokerProperties: core.BrokerProperties{SequenceNumber: 1, LockToken: core.NewLockToken(0, 1, 1)}}
	var dst []byte
	for b.Loop() {
		dst = appendDelivery(dst[:0], &d, form{})
	}
}

// BenchmarkDecodeMessage decodes a message of 1 KiB.
func BenchmarkDecodeMessage(b *testing.B) {
	b.ReportAllocs()
	payload := plainMessage(1024)
	for b.Loop() {
		if _, err := decodeMessage(payload); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLargeBodies sends messages with large bodies one at a time, and receives them, over plain TCP.
func BenchmarkLargeBodies(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20} {
		name := fmt.Sprintf("%dKiB", size>>10)
		encoded := plainMessage(size)
		m, err := decodeMessage(encoded)
		if err != nil {
			b.Fatal(err)
		}
		start := func(b *testing.B) *peer {
			broker := newFakeBroker("q1")
			broker.queues["q1"].forget = true
			broker.queues["q1"].maxSize = 100 << 20
			broker.queues["q1"].ready = []core.Delivery{{Message: m, BrokerProperties: core.BrokerProperties{SequenceNumber: 1}}}
			p := newPeer(b, overTCP(b, New(broker, &fakeAuthority{}, Options{})))
			p.open()
			b.ReportAllocs()
			b.SetBytes(int64(size))
			return p
		}
		b.Run("send/"+name, func(b *testing.B) {
			p := start(b)
			p.attach(0, wire.RoleSender, "q1")
			await[*wire.Flow](p)
			var stream []byte
			for id := uint32(0); b.Loop(); id++ {
				stream = stream[:0]
				t := &wire.Transfer{DeliveryID: value.Some(id), DeliveryTag: []byte{1}, MessageFormat: value.Some(uint32(0))}
				for rest := encoded; len(rest) > 0; t = new(wire.Transfer) {
					var n int
					if stream, n, err = wire.AppendTransfer(stream, 0, t, len(rest), 65536); err != nil {
						b.Fatal(err)
					}
					stream, rest = append(stream, rest[:n]...), rest[n:]
				}
				p.write(stream)
				await[*wire.Disposition](p)
			}
		})
		b.Run("receive/"+name, func(b *testing.B) {
			p := start(b)
			p.attach(0, wire.RoleReceiver, "q1")
			frames := uint32(0)
			for id := uint32(0); b.Loop(); id++ {
				p.send(0, &wire.Flow{
					NextIncomingID: value.Some(frames), IncomingWindow: 5000, OutgoingWindow: 1,
					Handle: value.Some(uint32(0)), DeliveryCount: value.Some(id), LinkCredit: value.Some(uint32(1)),
				})
				for frames++; await[*wire.Transfer](p).More; frames++ {
				}
				p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: id, State: wire.Accepted{}})
				await[*wire.Disposition](p)
			}
		})
	}
}
