package value

import (
	"bytes"
	"testing"
)

// FuzzDecode checks, for any bytes, that Skip and Decode accept the same and that what Decode returns survives Append.
func FuzzDecode(f *testing.F) {
	for _, v := range samples {
		b, err := Append(nil, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, c := range refused {
		f.Add(unhex(c.hex))
	}
	lim := Limits{Depth: 8, Elements: 1000}
	f.Fuzz(func(t *testing.T, b []byte) {
		after, skipErr := Skip(b, lim)
		v, rest, err := Decode(b, lim)
		if (err == nil) != (skipErr == nil) || !bytes.Equal(after, rest) {
			t.Fatalf("Decode: %v, Skip: %v", err, skipErr)
		}
		for range MapEntries(b) { // must end on any bytes
		}
		if err != nil {
			return
		}
		if raw, _, err := ReadRaw(b); err != nil || len(raw) != len(b)-len(rest) {
			t.Fatalf("ReadRaw returned %d bytes, %v, want %d", len(raw), err, len(b)-len(rest))
		}
		again, err := Append(nil, v)
		if err != nil {
			t.Fatalf("Append of %#v: %v", v, err)
		}
		w, rest, err := Decode(again, lim)
		if err != nil || len(rest) != 0 {
			t.Fatalf("Decode of %x: %v with %d bytes left", again, err, len(rest))
		}
		if !Equal(v, w) {
			t.Fatalf("got %#v after a round trip, want %#v", w, v)
		}
	})
}
