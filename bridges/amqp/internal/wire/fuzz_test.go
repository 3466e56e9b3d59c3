package wire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/crosstown-mq/crosstown/core/value"
)

// FuzzFrame reads frames from any bytes. What decodes is encoded again, decodes again, and then has the same encoding.
func FuzzFrame(f *testing.F) {
	for _, c := range vectors {
		b, err := AppendFrame(nil, 1, c.p, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, p := range full {
		b, err := AppendFrame(nil, 2, p, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append(AppendHeartbeat(nil), b...))
	}
	for _, c := range hostile {
		body := unhex(c.hex)
		f.Add(append([]byte{0, 0, 0, byte(8 + len(body)), 2, 0, 0, 0}, body...))
	}
	lim := value.Limits{Depth: 8, Elements: 1000}
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Decoder
		d.Limits = lim
		for {
			frame, n, err := CutFrame(b, 4096)
			if err != nil || n == 0 {
				return
			}
			b = b[n:]
			p, payload, err := d.Decode(frame.Body)
			if err != nil {
				if _, ok := errors.AsType[*Error](err); !ok {
					t.Fatalf("got a %T, want an *Error", err)
				}
				continue
			}
			once, err := AppendFrame(nil, frame.Channel, p, payload)
			if err != nil {
				t.Fatalf("encode %+v: %v", p, err)
			}
			again, m, err := CutFrame(once, 1<<20)
			if err != nil || m != len(once) {
				t.Fatalf("cut %x: %d bytes, %v", once, m, err)
			}
			q, rest, err := (&Decoder{Limits: lim}).Decode(again.Body)
			if err != nil || !bytes.Equal(rest, payload) {
				t.Fatalf("decode %x again: %v", again.Body, err)
			}
			twice, err := AppendFrame(nil, frame.Channel, q, rest)
			if err != nil || !bytes.Equal(once, twice) {
				t.Fatalf("got %x, %v, want %x", twice, err, once)
			}
		}
	})
}

// FuzzMessage splits any bytes into sections. What is accepted is put together again and has the same sections, and
// header and properties survive a round trip.
func FuzzMessage(f *testing.F) {
	for _, m := range messages() {
		b, err := m.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, c := range brokenMessages {
		f.Add(unhex(c.hex))
	}
	f.Add(unhex("005375 a024" + inner + "005375 a024" + inner))
	f.Add(AppendProperties(nil, &allProperties))
	lim := value.Limits{Depth: 8, Elements: 1000}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := SplitMessage(b, lim)
		batch, batchErr := SplitBatch(b, lim, 10)
		if err != nil {
			if batchErr == nil {
				t.Fatalf("SplitBatch accepts %d messages, SplitMessage says %v", len(batch), err)
			}
			return
		}
		if h, err := DecodeHeader(s.Header); err == nil {
			again, err := SplitMessage(AppendHeader(nil, &h), lim)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := DecodeHeader(again.Header); err != nil || got != h {
				t.Fatalf("got %+v, %v, want %+v", got, err, h)
			}
		}
		if p, err := DecodeProperties(s.Properties); err == nil {
			once := AppendProperties(nil, &p)
			again, err := SplitMessage(once, lim)
			if err != nil {
				t.Fatal(err)
			}
			q, err := DecodeProperties(again.Properties)
			if twice := AppendProperties(nil, &q); err != nil || !bytes.Equal(once, twice) {
				t.Fatalf("got %x, %v, want %x", twice, err, once)
			}
		}
		if v, ok := s.Value(); ok {
			if _, _, err := value.Decode(v, lim); err != nil {
				t.Fatalf("the value of the body: %v", err)
			}
			if _, err := DecodeTransactionRequest(v, lim); err != nil {
				if _, ok := errors.AsType[*Error](err); !ok {
					t.Fatalf("got a %T, want an *Error", err)
				}
			}
		}
	})
}
