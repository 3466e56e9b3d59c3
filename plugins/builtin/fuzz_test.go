package builtin

import (
	"bytes"
	"errors"
	"testing"

	"github.com/crosstown-mq/crosstown/core/value"
)

// fuzz decodes anything: nothing panics, and what is read is written and read
// again as the same value.
func fuzz(f *testing.F, name string) {
	s := named(f, name)
	for _, v := range []any{order(2), value.List{int64(-1), 0.5, "x", []byte("b"), value.Timestamp(1), value.UUID{}}} {
		if payload, err := encode(f, s, v); err == nil {
			f.Add(payload)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		v, err := s.Decode(t.Context(), "", payload)
		if err != nil {
			return
		}
		again, err := encode(t, s, v)
		if errors.Is(err, errDepth) {
			return
		}
		if err != nil {
			t.Fatalf("%q is read as %#v, which cannot be written: %v", payload, v, err)
		}
		w, err := s.Decode(t.Context(), "", again)
		if err != nil {
			t.Fatalf("%q is read as %#v and written as %q: %v", payload, v, again, err)
		}
		if name == JSON || name == CloudEvents { // 1E2 and 100 are two types, and one text
			third, err := encode(t, s, w)
			if err != nil || !bytes.Equal(third, again) {
				t.Fatalf("%q is written as %q, then %q, %v", payload, again, third, err)
			}
			return
		}
		if !value.Equal(v, w) {
			t.Fatalf("%q is read as %#v and then as %#v", payload, v, w)
		}
	})
}

func FuzzJSON(f *testing.F)        { fuzz(f, JSON) }
func FuzzMessagePack(f *testing.F) { fuzz(f, MessagePack) }
func FuzzCBOR(f *testing.F)        { fuzz(f, CBOR) }
func FuzzAMQP(f *testing.F)        { fuzz(f, AMQP) }
func FuzzText(f *testing.F)        { fuzz(f, Text) }
func FuzzCloudEvents(f *testing.F) {
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t","time":"2026-01-31T12:00:00Z","n":5,"data":{"a":[1]}}`))
	fuzz(f, CloudEvents)
}
