package frame

import (
	"bytes"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// ordinary is a delivery as most are: a few properties and a body of 1 KiB.
func ordinary(b *testing.B, contentType string) core.Delivery {
	b.Helper()
	properties, err := core.NewProperties(
		core.Property{Key: "region", Value: "north"}, core.Property{Key: "tries", Value: int64(3)}, core.Property{Key: "urgent", Value: true},
	)
	if err != nil {
		b.Fatal(err)
	}
	body := append(append([]byte(`{"data":"`), bytes.Repeat([]byte("x"), 1000)...), `","n":[1,2,3]}`...)
	return core.Delivery{
		Message: &core.Message{
			MessageID: core.StringID("0123456789abcdef0123456789abcdef"), ContentType: contentType, Properties: properties, Body: core.Body{Bytes: body},
		},
		BrokerProperties: core.BrokerProperties{
			SequenceNumber: 12345, EnqueuedSequenceNumber: 12345, EnqueuedTime: noon, LockToken: core.NewLockToken(1, 2, 3), LockedUntil: noon.Add(time.Minute),
		},
	}
}

var encodings = []struct {
	name string
	e    codec.Encoding
}{{"json", codec.JSON}, {"msgpack", codec.MessagePack}}

func BenchmarkWriteDelivery(b *testing.B) {
	for _, c := range encodings {
		for _, contentType := range []string{"application/json", "application/octet-stream"} {
			b.Run(c.name+"/"+contentType[len("application/"):], func(b *testing.B) {
				d := ordinary(b, contentType)
				var dst []byte
				b.ReportAllocs()
				for b.Loop() {
					w := codec.NewWriter(c.e, dst[:0])
					WriteDelivery(w, d, false)
					dst = w.Bytes()
				}
				b.SetBytes(int64(len(dst)))
			})
		}
	}
}

func BenchmarkReadMessage(b *testing.B) {
	for _, c := range encodings {
		for _, contentType := range []string{"application/json", "application/octet-stream"} {
			b.Run(c.name+"/"+contentType[len("application/"):], func(b *testing.B) {
				w := codec.NewWriter(c.e, nil)
				w.OpenMap()
				w.Key("message")
				WriteDelivery(w, ordinary(b, contentType), false)
				w.CloseMap()
				var members []Member
				r := NewReader(c.e)
				b.ReportAllocs()
				b.SetBytes(int64(w.Len()))
				for b.Loop() {
					var err error
					if members, err = Split(r, w.Bytes(), members[:0]); err != nil {
						b.Fatal(err)
					}
					r.Reset(members[0].Value, true)
					if _, err := ReadMessage(r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
