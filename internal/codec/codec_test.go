package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
)

// write reads a value and writes it in another encoding.
func write(w Writer, r *Reader) {
	switch r.Kind() {
	case Null:
		r.Null()
		w.Null()
	case Bool:
		w.Bool(r.Bool())
	case Int:
		w.Int(r.Int())
	case Uint:
		w.Uint(r.Uint())
	case Float, Float32, Huge:
		f, _ := r.Float()
		w.Float(f)
	case Text:
		w.Text(string(r.Text()))
	case Binary:
		w.Binary(r.Binary())
	case Instant:
		ms, _ := r.Instant()
		w.Instant(ms)
	case Extension:
		kind, data := r.Extension()
		w.(*PackWriter).Extension(kind, data)
	case List:
		w.OpenList()
		n := 0
		for r.Open(); r.More(); n++ {
			write(w, r)
		}
		w.CloseList(n)
	case Map:
		w.OpenMap()
		for r.Open(); r.More(); {
			w.Key(string(r.Key()))
			write(w, r)
		}
		w.CloseMap()
	}
}

func TestJSONIsReadAndWritten(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		` { "a" : [ 1 , -0.5 , true , false , null ] , "\u0062" : { } , "" : [] } `: `{"a":[1,-0.5,true,false,null],"b":{},"":[]}`,
		`[9223372036854775807,-9223372036854775808,18446744073709551615]`:           `[9223372036854775807,-9223372036854775808,18446744073709551615]`,
		`"\"\\\/\b\f\n\r\t\u00fc\ud83d\ude00 ü😀"`:                                   `"\"\\/\u0008\u000c\n\u000d\u0009ü😀 ü😀"`,
	} {
		r, w := NewReader(JSON, []byte(in), Options{Depth: 3}), NewWriter(JSON, nil)
		write(w, r)
		if err := r.End(); err != nil || string(w.Bytes()) != want {
			t.Errorf("%s: got %s, %v, want %s", in, w.Bytes(), err, want)
		}
		pack := NewWriter(MessagePack, nil)
		write(pack, NewReader(JSON, []byte(in), Options{Depth: 3}))
		again, back := NewReader(MessagePack, pack.Bytes(), Options{Depth: 3}), NewWriter(JSON, nil)
		write(back, again)
		if err := again.End(); err != nil || string(back.Bytes()) != want {
			t.Errorf("%s by MessagePack: got %s, %v, want %s", in, back.Bytes(), err, want)
		}
	}
}

func TestErrorsEndTheReading(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		e     Encoding
		data  string
		frame bool
		want  string
	}{
		{JSON, `{"a" 1}`, false, "a key is not followed by ':' at byte 5"},
		{JSON, `{"a"`, false, "a key is not followed by ':' at byte 4"},
		{JSON, `[1 2]`, false, "an element is not followed by ',' or ']' at byte 3"},
		{JSON, `[[[[]]]]`, false, "values are nested deeper than 3 at byte 3"},
		{JSON, `"\ud800"`, false, "a string has an unpaired surrogate at byte 8"},
		{JSON, `"\ud800"`, true, ""},
		{JSON, `1 2`, false, LeftOver + " at byte 2"},
		{MessagePack, "\x91\x91\x91\x90", false, "values are nested deeper than 3 at byte 3"},
		{MessagePack, "\xd4\x05\x00", false, ""},
		{MessagePack, "\xd4\x05\x00", true, "the only extension that is supported is the timestamp at byte 0"},
		{MessagePack, "\x81\x01\x01", false, "a key is an integer: it must be a string at byte 1"},
		{MessagePack, "\xa1\xff", false, NotUTF8 + " at byte 2"},
	} {
		for _, skips := range []bool{false, true} {
			r, w := NewReader(c.e, []byte(c.data), Options{Depth: 3, Frame: c.frame}), NewWriter(MessagePack, nil)
			if skips && !strings.Contains(c.want, "surrogate") && (c.frame || !strings.Contains(c.want, "key")) {
				r.Skip()
			} else {
				write(w, r)
			}
			got := ""
			if err := r.End(); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%q, skips %v: got %q, want %q", c.data, skips, got, c.want)
			}
			if _, ok := errors.AsType[*Error](r.Err()); ok != (c.want != "") || ok && (r.Kind() != 0 || r.More()) {
				t.Errorf("%q: there is more after the error", c.data)
			}
		}
	}
}

func TestCBORIsReadAndSkipped(t *testing.T) {
	t.Parallel()
	const data = "\x85\xbf\x01\xc1\x18\x1e\xff\x7f\x61x\x61y\xff\x5f\x41\xff\x40\xff\xf9\x3e\x00\x3b\x7f\xff\xff\xff\xff\xff\xff\xff"
	r := NewReader(CBOR, []byte(data), Options{Depth: 3})
	if raw := r.Skip(); string(raw) != data || r.End() != nil {
		t.Errorf("skipped %q, %v", raw, r.Err())
	}
	r.Reset([]byte(data), false)
	var got []any
	n := r.Open()
	for r.More() {
		switch k := r.Kind(); k {
		case Map:
			for got = append(got, r.Open()); r.More(); {
				r.Kind()
				got = append(got, r.Int(), r.Kind(), r.Tag(), r.More(), r.Kind(), r.Int(), r.More())
			}
		case Text:
			got = append(got, string(r.Text()))
		case Binary:
			got = append(got, r.Binary())
		case Float32:
			f, _ := r.Float()
			got = append(got, f)
		default:
			got = append(got, r.Int())
		}
	}
	const want = "[0 1 a tag 1 true an integer 30 false xy [255] 1.5 -9223372036854775808]"
	if err := r.End(); err != nil || n != 5 || fmt.Sprint(got) != want {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"a":1,"a":[{"b":"\ud83d\ude00"}],"c":-0.5e+1}`))
	f.Add([]byte(`[0.1,1e5,18446744073709551616,"\\"]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !utf8.Valid(data) {
			return
		}
		r := NewReader(JSON, data, Options{Depth: MaxDepth, Frame: true})
		w := NewWriter(JSON, nil)
		write(w, r)
		err := r.End()
		if err != nil && strings.Contains(err.Error(), "nested deeper") {
			return
		}
		if valid := json.Valid(data); valid != (err == nil) || ValidJSON(data, MaxDepth) != valid {
			t.Fatalf("got %v, but the standard library says %v", err, valid)
		}
		if bytes.Contains(w.Bytes(), []byte("Inf")) { // of a number beyond double precision
			return
		}
		if err == nil && !json.Valid(w.Bytes()) {
			t.Fatalf("%q is written as %q", data, w.Bytes())
		}
	})
}

func FuzzMessagePack(f *testing.F) {
	for _, v := range []any{map[string]any{"a": []any{1, 2.5, "x", nil, []byte("b")}}, fmt.Sprint(strings.Repeat("x", 300)), uint64(1) << 63} {
		encoded, err := msgpack.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReader(MessagePack, data, Options{Depth: MaxDepth, Frame: true})
		raw := r.Skip()
		if r.End() != nil {
			return
		}
		if err := msgpack.Unmarshal(raw, new(any)); err != nil && !strings.Contains(err.Error(), "unhashable") {
			t.Fatalf("another library cannot read it: %v", err)
		}
		w := NewWriter(MessagePack, nil)
		r.Reset(data, true)
		write(w, r)
		again := NewReader(MessagePack, w.Bytes(), Options{Depth: MaxDepth, Frame: true})
		w2 := NewWriter(MessagePack, nil)
		write(w2, again)
		if err := errors.Join(r.End(), again.End()); err != nil || !bytes.Equal(w.Bytes(), w2.Bytes()) {
			t.Fatalf("%q became %q, then %q, %v", data, w.Bytes(), w2.Bytes(), err)
		}
	})
}
