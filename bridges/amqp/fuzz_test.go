package amqp

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// FuzzMessage decodes bytes as a message and encodes it as a delivery: that is a valid message with the same body, and
// decodes to the same delivery again.
func FuzzMessage(f *testing.F) {
	f.Add(plainMessage(3))
	f.Add(wire.AppendHeader(nil, &wire.Header{TTL: value.Some(uint32(1))}))
	f.Add(wire.AppendSection(nil, wire.DescValue, []byte{0x40}))
	f.Add(wire.AppendSection(nil, wire.DescApplicationProperties, []byte{0xc1, 5, 2, 0x52, 1, 0x52, 2}))
	f.Add(wire.AppendSection(nil, wire.DescMessageAnnotations, []byte{0xc1, 5, 2, 0xa3, 1, 'k', 0x40}))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := decodeMessage(bytes.Clone(in))
		if err != nil {
			return
		}
		first := encodeForFuzz(m)
		s, err := wire.SplitMessage(first, value.Limits{})
		if err != nil {
			t.Fatalf("%x became %x: %v", in, first, err)
		}
		original, _ := wire.SplitMessage(in, value.Limits{})
		if !bytes.Equal(s.Body, original.Body) {
			t.Fatalf("body %x became %x", original.Body, s.Body)
		}
		again, err := decodeMessage(first)
		if err != nil {
			t.Fatalf("%x became %x: %v", in, first, err)
		}
		if second := encodeForFuzz(again); !bytes.Equal(first, second) {
			t.Fatalf("%x became %x", first, second)
		}
	})
}

func encodeForFuzz(m *core.Message) []byte {
	return appendDelivery(nil, &core.Delivery{Message: m, BrokerProperties: core.BrokerProperties{
		SequenceNumber: 1, EnqueuedTime: time.UnixMilli(1), LockToken: core.NewLockToken(1, 2, 3),
	}}, form{})
}

// FuzzConnection feeds bytes to a bridge after links of every kind are attached. Nothing panics, and the connection
// ends when the client goes.
func FuzzConnection(f *testing.F) {
	transfer := func(handle uint32, payload []byte) []byte {
		b, err := wire.AppendFrame(nil, 0, &wire.Transfer{Handle: handle, DeliveryID: value.Some(uint32(0)), DeliveryTag: []byte{1}}, payload)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	f.Add(transfer(0, plainMessage(3)))
	f.Add(transfer(2, wire.AppendProperties(nil, &wire.MessageProperties{})))
	f.Add(transfer(4, wire.AppendProperties(nil, &wire.MessageProperties{})))
	for _, p := range []wire.Performative{
		&wire.Flow{NextIncomingID: value.Some(uint32(0)), IncomingWindow: 9, Handle: value.Some(uint32(1)), LinkCredit: value.Some(uint32(9)), DeliveryCount: value.Some(uint32(0))},
		&wire.Disposition{Role: wire.RoleReceiver, First: 0, Last: value.Some(uint32(9)), State: wire.Modified{}},
		&wire.Detach{Handle: 1, Closed: true}, &wire.End{}, &wire.Close{},
	} {
		b, err := wire.AppendFrame(nil, 0, p, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		faults := &faultLog{}
		broker := newFakeBroker("q1")
		broker.put(t, "q1", 3)
		here, there := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = New(broker, &fakeAuthority{}, Options{Logger: slog.New(faults)}).ServeConn(context.Background(), there)
		}()
		p := newPeer(t, here)
		p.open()
		p.attach(0, wire.RoleSender, "q1")
		p.attach(1, wire.RoleReceiver, "q1")
		p.flowTo(1, 0, 0, 2, false)
		p.node("q1/$management", 2)
		p.node("$cbs", 4)
		go func() { _, _ = io.Copy(io.Discard, here) }()
		_, _ = here.Write(in)
		_ = here.Close()
		select {
		case <-done:
		case <-time.After(eventually.Bound):
			t.Fatal("the connection does not end")
		}
		if faults.seen.Load() {
			t.Fatal("a fault was logged")
		}
	})
}

// faultLog notes whether an error was logged.
type faultLog struct{ seen atomic.Bool }

func (l *faultLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (l *faultLog) Handle(context.Context, slog.Record) error { l.seen.Store(true); return nil }
func (l *faultLog) WithAttrs([]slog.Attr) slog.Handler        { return l }
func (l *faultLog) WithGroup(string) slog.Handler             { return l }
