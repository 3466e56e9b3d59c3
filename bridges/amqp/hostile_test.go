package amqp

import (
	"bytes"
	"testing"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
)

// TestHostileInput sends what no client should over a real socket, and looks for the error at the right level. In the
// end the bridge still serves others.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	addr := serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{MaxSessions: 4, MaxHandles: 4})
	flow := wire.Flow{NextIncomingID: value.Some(uint32(0)), IncomingWindow: 100, OutgoingWindow: 100}
	for _, c := range []struct {
		name string
		do   func(p *peer)
		want value.Symbol
	}{
		{"frame beyond the limit", func(p *peer) { p.write([]byte{0x7f, 0xff, 0xff, 0xff, 2, 0, 0, 0}) }, wire.CondFramingError},
		{"frame without room for its header", func(p *peer) { p.write([]byte{0, 0, 0, 4, 2, 0, 0, 0}) }, wire.CondFramingError},
		{"data offset beyond the frame", func(p *peer) { p.write([]byte{0, 0, 0, 8, 9, 0, 0, 0}) }, wire.CondFramingError},
		{"frame of unknown type", func(p *peer) { p.write([]byte{0, 0, 0, 8, 2, 7, 0, 0}) }, wire.CondFramingError},
		{"SASL frame after SASL", func(p *peer) { p.write([]byte{0, 0, 0, 8, 2, 1, 0, 0}) }, wire.CondFramingError},
		{"body cut short", func(p *peer) { p.write([]byte{0, 0, 0, 14, 2, 0, 0, 0, 0, 0x53, 0x14, 0xc0, 0x20, 1}) }, wire.CondDecodeError},
		{"list with more elements than bytes", func(p *peer) {
			p.write([]byte{0, 0, 0, 20, 2, 0, 0, 0, 0, 0x53, 0x14, 0xd0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff})
		}, wire.CondDecodeError},
		{"field of the wrong type", func(p *peer) {
			p.write([]byte{0, 0, 0, 17, 2, 0, 0, 0, 0, 0x53, 0x14, 0xc0, 4, 1, 0xa1, 1, 'x'})
		}, wire.CondDecodeError},
		{"unknown performative", func(p *peer) { p.write([]byte{0, 0, 0, 12, 2, 0, 0, 0, 0, 0x53, 0x77, 0x45}) }, wire.CondNotImplemented},
		{"no begin", func(p *peer) { p.send(3, &flow) }, wire.CondNotAllowed},
		{"channel beyond the maximum", func(p *peer) { p.send(4, &wire.Begin{}) }, wire.CondFramingError},
		{"handle beyond the maximum", func(p *peer) { p.send(0, &wire.Attach{Name: "x", Handle: 1 << 31}) }, wire.CondFramingError},
		{"transfer on a handle that is not attached", func(p *peer) { p.send(0, &wire.Transfer{Handle: 1}) }, wire.CondUnattachedHandle},
		{"handle in use", func(p *peer) {
			p.attach(0, wire.RoleSender, "q1")
			p.send(0, &wire.Attach{Name: "other", Handle: 0})
		}, wire.CondHandleInUse},
		{"disposition that runs backwards", func(p *peer) {
			p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: 5, Last: value.Some(uint32(4)), State: wire.Accepted{}})
		}, wire.CondInvalidField},
		{"transfer without credit", func(p *peer) {
			p.attach(0, wire.RoleReceiver, "q1/$management")
			p.attach(1, wire.RoleSender, "q1/$management")
			var burst []byte // without the nulls at the end, so that all of it comes with one read
			for i := range byte(requestCredit) {
				burst = append(burst, 0, 0, 0, 24, 2, 0, 0, 0, 0, 0x53, 0x14, 0xc0, 7, 3, 0x52, 1, 0x52, i, 0xa0, 0, 0, 0x53, 0x73, 0x45)
			}
			burst, _ = wire.AppendFrame(burst, 0, &wire.Transfer{Handle: 1, DeliveryID: value.Some(uint32(requestCredit)), DeliveryTag: []byte{}, More: true}, nil)
			p.write(burst)
		}, wire.CondTransferLimitExceeded},
		{"transfer without a tag", func(p *peer) {
			p.attach(0, wire.RoleSender, "q1")
			p.send(0, &wire.Transfer{DeliveryID: value.Some(uint32(0))})
		}, wire.CondInvalidField},
		{"transfer on a link to receive from", func(p *peer) {
			p.attach(0, wire.RoleReceiver, "q1")
			p.send(0, &wire.Transfer{DeliveryID: value.Some(uint32(0)), DeliveryTag: []byte{1}})
		}, wire.CondNotAllowed},
		{"message far too large", func(p *peer) {
			p.attach(0, wire.RoleSender, "q1")
			half := &wire.Transfer{DeliveryID: value.Some(uint32(0)), DeliveryTag: []byte{1}, More: true}
			for range 25 {
				p.transfer(half, make([]byte, 60_000))
			}
		}, wire.CondMessageSizeExceeded},
		{"attach without an address", func(p *peer) { p.send(0, &wire.Attach{Name: "x"}) }, wire.CondNotFound},
		{"receive from a coordinator", func(p *peer) {
			p.send(0, &wire.Attach{Name: "x", Role: wire.RoleReceiver, Coordinator: &wire.Coordinator{}})
		}, wire.CondInvalidField},
		{"attach with a session filter", func(p *peer) {
			p.send(0, &wire.Attach{Name: "x", Role: wire.RoleReceiver, Source: &wire.Source{
				Address: value.Some("q1"), Filter: value.Map{{Key: value.Symbol(sessionFilter), Value: nil}},
			}})
		}, wire.CondNotAllowed},
		{"attach with a session filter that is a number", func(p *peer) {
			p.send(0, &wire.Attach{Name: "x", Role: wire.RoleReceiver, Source: &wire.Source{
				Address: value.Some("q1"), Filter: value.Map{{Key: value.Symbol(sessionFilter), Value: int32(7)}},
			}})
		}, wire.CondArgumentError},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := dialPeer(t, addr)
			p.open()
			c.do(p)
			if got := p.fault(); got == nil || got.Condition != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}

// request1 is an encoded request that no node knows.
// fault returns the error of the next detach, end or close, nil if the connection ends without.
func (p *peer) fault() *wire.Error {
	p.tb.Helper()
	for {
		perf, _ := p.receive()
		switch f := perf.(type) {
		case *wire.Detach:
			return f.Error
		case *wire.End:
			return f.Error
		case *wire.Close:
			return f.Error
		case nil:
			return nil
		}
	}
}

// TestHostileMessages sends transfers whose payload is not a message: they are rejected, and the link lives on.
func TestHostileMessages(t *testing.T) {
	t.Parallel()
	p := dialPeer(t, serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{}))
	p.open()
	p.attach(0, wire.RoleSender, "q1")
	deep := append(bytes.Repeat([]byte{0xc0, 0xff, 1}, 100), 0x45)
	annotated := func(key string, v any) []byte {
		b, err := value.Append(nil, value.Map{{Key: value.Symbol(key), Value: v}})
		if err != nil {
			t.Fatal(err)
		}
		return wire.AppendSection(nil, wire.DescMessageAnnotations, b)
	}
	for i, c := range []struct {
		name    string
		format  uint32
		payload []byte
		want    value.Symbol // "" is accepted
	}{
		{"empty", 0, []byte{}, ""},
		{"no section", 0, []byte{0x40}, wire.CondDecodeError},
		{"section of nobody", 0, []byte{0, 0x53, 0x01, 0x45}, wire.CondDecodeError},
		{"cut short", 0, []byte{0, 0x53, 0x75, 0xb0, 0, 0, 1, 0}, wire.CondDecodeError},
		{"nested too deep", 0, append([]byte{0, 0x53, 0x77}, deep...), wire.CondDecodeError},
		{"properties of the wrong type", 0, []byte{0, 0x53, 0x73, 0xc0, 3, 1, 0x52, 1}, wire.CondInvalidField},
		{"partition key of the wrong type", 0, annotated(annPartitionKey, int32(1)), wire.CondNotAllowed},
		{"schedule of the wrong type", 0, annotated(annScheduled, "soon"), wire.CondNotAllowed},
		{"instants beyond the calendar", 0, annotated(annScheduled, value.Timestamp(-1<<63)), ""},
		{"unknown format", 77, []byte{}, wire.CondNotImplemented},
		{"batch of nothing", wire.FormatBatch, []byte{}, wire.CondInvalidField},
		{"batch with one bad message", wire.FormatBatch, wire.AppendDataSection(wire.AppendDataSection(nil, plainMessage(1)), []byte{0x40}), wire.CondDecodeError},
	} {
		p.transfer(&wire.Transfer{DeliveryID: value.Some(uint32(i)), DeliveryTag: []byte{1}, MessageFormat: value.Some(c.format)}, c.payload)
		d := await[*wire.Disposition](p)
		if d == nil || d.First != uint32(i) || !d.Settled {
			t.Fatalf("%s: got disposition %v", c.name, d)
		}
		var got value.Symbol
		if r, ok := d.State.(wire.Rejected); ok && r.Error != nil {
			got = r.Error.Condition
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestGarbageEndsTheConnection sends what is not AMQP: the answer is a header that is, and the end.
func TestGarbageEndsTheConnection(t *testing.T) {
	t.Parallel()
	addr := serve(t, newFakeBroker(), &fakeAuthority{}, Options{})
	for _, garbage := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "AMQP\x00\x00\x09\x01", "\x00\x00\x00\x00\x00\x00\x00\x00"} {
		p := dialPeer(t, addr)
		p.write([]byte(garbage))
		for p.fill() {
		}
		if got := p.buf[:p.n]; !bytes.Equal(got, wire.AppendProtocolHeader(nil, wire.ProtocolSASL)) {
			t.Errorf("after %q: got %q, want the header of SASL", garbage, got)
		}
	}
}
