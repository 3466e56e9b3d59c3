package builtin

import (
	"fmt"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/payload"
)

func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{JSON, MessagePack, CBOR, AMQP} {
		for _, lines := range []int{0, 10, 1000} {
			s := named(b, name)
			payload, err := encode(b, s, order(lines))
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/%dB", name, len(payload)), func(b *testing.B) {
				b.SetBytes(int64(len(payload)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.Decode(b.Context(), "", payload); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{JSON, MessagePack, CBOR, AMQP} {
		for _, lines := range []int{0, 10, 1000} {
			s, v := named(b, name), order(lines)
			payload, err := encode(b, s, v)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/%dB", name, len(payload)), func(b *testing.B) {
				b.SetBytes(int64(len(payload)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := encode(b, s, v); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkTranscode is what a receiver that accepts another format costs.
func BenchmarkTranscode(b *testing.B) {
	chain := payload.NewChain(nil, payload.Named{Name: JSON, Serializer: Named(JSON)}, payload.Named{Name: MessagePack, Serializer: Named(MessagePack)},
		payload.Named{Name: CBOR, Serializer: Named(CBOR)}, payload.Named{Name: AMQP, Serializer: Named(AMQP)})
	for _, c := range []struct{ from, to string }{{JSON, MessagePack}, {MessagePack, JSON}, {CBOR, JSON}, {AMQP, JSON}, {JSON, JSON}} {
		accept := payload.ParseAccept(named(b, c.to).ContentTypes()[0])
		for _, lines := range []int{0, 10, 1000} {
			body, err := encode(b, named(b, c.from), order(lines))
			if err != nil {
				b.Fatal(err)
			}
			m := &core.Message{ContentType: named(b, c.from).ContentTypes()[0], Body: core.Body{Bytes: body}}
			b.Run(fmt.Sprintf("%s-%s/%dB", c.from, c.to, len(body)), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := chain.Transcode(b.Context(), m, accept, false); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
