package builtin

import (
	"fmt"
	"testing"
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
