package wire

import (
	"testing"

	"github.com/crosstown-mq/crosstown/core/value"
)

func hotPerformatives() []struct {
	name string
	p    Performative
} {
	return []struct {
		name string
		p    Performative
	}{
		{"transfer", &Transfer{
			Handle: 1, DeliveryID: value.Some[uint32](70000), DeliveryTag: make([]byte, 16), MessageFormat: value.Some(FormatMessage),
			Settled: value.Some(false),
		}},
		{"disposition", &Disposition{Role: RoleReceiver, First: 70000, Last: value.Some[uint32](70001), Settled: true, State: Accepted{}}},
		{"flow", &Flow{
			NextIncomingID: value.Some[uint32](70000), IncomingWindow: 5000, NextOutgoingID: 1, OutgoingWindow: 5000, Handle: value.Some[uint32](1),
			DeliveryCount: value.Some[uint32](70000), LinkCredit: value.Some[uint32](1000),
		}},
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	for _, c := range hotPerformatives() {
		var d Decoder
		var payload [100]byte
		frame, err := AppendFrame(nil, 1, c.p, nil)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 0, 512)
		if n := testing.AllocsPerRun(100, func() {
			if _, _, err := d.Decode(frame[frameHeader:]); err != nil {
				t.Fatal(err)
			}
			if _, err := AppendFrame(buf, 1, c.p, nil); err != nil {
				t.Fatal(err)
			}
			fresh := Transfer{Handle: 1, DeliveryTag: payload[:16], State: Accepted{}}
			if _, _, err := AppendTransfer(buf, 1, &fresh, len(payload), 64); err != nil {
				t.Fatal(err)
			}
			if _, err := AppendFrame(buf, 1, &Disposition{State: Accepted{}}, nil); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", c.name, n)
		}
	}
}

// typicalMessage has what most messages have.
func typicalMessage() []byte {
	b := AppendHeader(nil, &Header{Durable: value.Some(true), TTL: value.Some[uint32](60000)})
	b = AppendProperties(b, &MessageProperties{
		MessageID: ID{value.KindString, "0f8fad5b-d9cb-469f-a165-70867728950e"}, Subject: "order", ContentType: "application/json",
		CorrelationID: ID{value.KindString, "request-17"}, GroupID: "customer-9",
	})
	b = AppendSection(b, DescApplicationProperties, encoded(value.Map{{Key: "kind", Value: "order"}, {Key: "attempt", Value: int32(1)}}))
	return AppendDataSection(b, make([]byte, 1024))
}

func TestReadingPropertiesAllocatesLittle(t *testing.T) {
	b := typicalMessage()
	if n := testing.AllocsPerRun(100, func() {
		s, err := SplitMessage(b, value.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeHeader(s.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeProperties(s.Properties); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Fatalf("got %v allocations, want at most 1", n)
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range hotPerformatives() {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var d Decoder
			frame, err := AppendFrame(nil, 1, c.p, nil)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				f, _, err := CutFrame(frame, 65536)
				if err != nil {
					b.Fatal(err)
				}
				if _, _, err := d.Decode(f.Body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, c := range hotPerformatives() {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var buf []byte
			for b.Loop() {
				var err error
				if buf, err = AppendFrame(buf[:0], 1, c.p, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSplitMessageAndDecodeProperties(b *testing.B) {
	b.ReportAllocs()
	m := typicalMessage()
	for b.Loop() {
		s, err := SplitMessage(m, value.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := DecodeProperties(s.Properties); err != nil {
			b.Fatal(err)
		}
	}
}
