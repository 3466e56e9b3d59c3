package frame

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/crosstown-mq/crosstown/internal/codec"
)

func TestMembersAreSplitInTheirOrder(t *testing.T) {
	t.Parallel()
	got, err := Split(NewReader(codec.JSON), []byte(` {"op" : "x", "\u0069d": 1e1 ,"l":[1, {"a":null}], "s": "\\\"", "": false} `), nil)
	if text := fmt.Sprintf("%q", got); err != nil || text != `[{"op" "\"x\""} {"id" "1e1"} {"l" "[1, {\"a\":null}]"} {"s" "\"\\\\\\\"\""} {"" "false"}]` {
		t.Errorf("JSON: got %s, %v", text, err)
	}
	packed, err := msgpack.Marshal(map[string]any{"op": "x"})
	if err != nil {
		t.Fatal(err)
	}
	got, err = Split(NewReader(codec.MessagePack), packed, nil)
	if err != nil || len(got) != 1 || got[0].Key != "op" || string(got[0].Value) != "\xa1x" {
		t.Errorf("MessagePack: got %q, %v", got, err)
	}
	if got, err := Split(NewReader(codec.JSON), []byte("{ }"), nil); err != nil || len(got) > 0 {
		t.Errorf("an empty object: got %v, %v", got, err)
	}
}

func TestInvalidFrameIsMalformed(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return `{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}" }
	for _, text := range []string{
		"", " ", "[]", "1", `"x"`, "null", "{", "{]", `{"a"}`, `{"a":}`, `{"a":1`, `{"a":1,}`, `{"a":1 "b":2}`, `{"a":1}x`, `{a:1}`,
		`{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":+1}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"` + "\n" + `"}`, `{"a":"`,
		`{"a":tru}`, `{"a":nul}`, `{"a":[1,]}`, `{"a":[1 2]}`, `{"a":{"b":1,}}`, `{"a":{"b"1}}`, `{"a":[}`, `{"a":NaN}`, "{\"a\":\"\xff\"}", `{"a":"\`,
		deep(512), "\xef\xbb\xbf{}",
	} {
		if _, err := Split(NewReader(codec.JSON), []byte(text), nil); !errors.Is(err, ErrMalformed) {
			t.Errorf("%.60q: got %v, want %v", text, err, ErrMalformed)
		}
	}
	if _, err := Split(NewReader(codec.JSON), []byte(deep(511)), nil); err != nil {
		t.Errorf("512 levels: %v", err)
	}
	for _, data := range []string{
		"", "\x90", "\xc0", "\x81", "\x81\xa1", "\x81\xa1a", "\x81\x01\x01", "\x80\x00", "\x81\xa1a\xc1", "\x81\xa1a\xd4\xff\x00", "\x81\xa1a\xd6\x05\x00\x00\x00\x00",
		"\x81\xa1a\xa2x", "\x81\xa1a\xa1\xff", "\x81\xa1a\xdb\xff\xff\xff\xff", "\x81\xa1a\xdd\xff\xff\xff\xff", "\x81\xa1a\xc6\x00\x00\x00\x02x", "\x81\xa1a\x81\xc0\xc0",
		"\xdf\xff\xff\xff\xff", "\x81\xa1a\xcf\x00", "\x81\xa1a\xc7\x0c", "\x81\xa1a\xc7\x0c\xff\x00", "\x81\xa1a" + strings.Repeat("\x91", 600) + "\xc0",
	} {
		if _, err := Split(NewReader(codec.MessagePack), []byte(data), nil); !errors.Is(err, ErrMalformed) {
			t.Errorf("%.20x: got %v, want %v", data, err, ErrMalformed)
		}
	}
}

func TestLongListsAndTextsHaveLongHeads(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 15, 16, 31, 32, 255, 256, 65535, 65536} {
		w := codec.NewWriter(codec.MessagePack, []byte("before"))
		w.OpenMap()
		w.Key("l")
		w.OpenList()
		for range n {
			w.Null()
		}
		w.CloseList(n)
		w.Key("t")
		w.Text(strings.Repeat("x", n))
		w.Key("b")
		w.Binary(make([]byte, n))
		w.Key("m")
		w.OpenMap()
		for i := range n {
			w.Key(fmt.Sprint(i))
			w.Int(int64(-i))
		}
		w.CloseMap()
		w.CloseMap()
		data, _ := bytes.CutPrefix(w.Bytes(), []byte("before"))
		var got struct {
			L []any          `msgpack:"l"`
			T string         `msgpack:"t"`
			B []byte         `msgpack:"b"`
			M map[string]int `msgpack:"m"`
		}
		if err := msgpack.Unmarshal(data, &got); err != nil || len(got.L) != n || len(got.T) != n || len(got.B) != n || len(got.M) != n {
			t.Errorf("%d: got %d, %d, %d, %d, %v", n, len(got.L), len(got.T), len(got.B), len(got.M), err)
		}
		if n > 0 && got.M[fmt.Sprint(n-1)] != 1-n {
			t.Errorf("%d: got %d", n, got.M[fmt.Sprint(n-1)])
		}
		if _, err := Split(NewReader(codec.MessagePack), data, nil); err != nil {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func TestInvalidUTF8IsReplaced(t *testing.T) {
	t.Parallel()
	for _, e := range []codec.Encoding{codec.JSON, codec.MessagePack} {
		w := codec.NewWriter(e, nil)
		w.Text("a\xffb")
		if got, _ := ReadText(open(t, e, w.Bytes())); got != "a\uFFFDb" {
			t.Errorf("%d: got %q", e, got)
		}
	}
}

func FuzzSplitJSON(f *testing.F) {
	for _, c := range valueCases {
		f.Add([]byte(`{"v":` + c.json + `}`))
	}
	f.Add([]byte(`{"a":1,"a":[{"b":"\ud83d\ude00"}],"c":-0.5e+1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		members, err := Split(NewReader(codec.JSON), data, nil)
		if trimmed := bytes.TrimLeft(data, " \n\t\r"); len(trimmed) > 0 && trimmed[0] == '{' {
			valid := json.Valid(data) && codec.ValidJSON(data, codec.MaxDepth) // which also minds UTF-8 and nesting
			if valid != (err == nil) {
				t.Fatalf("got %v, but the standard library says %v", err, valid)
			}
		}
		readAll(t, codec.JSON, members)
	})
}

func FuzzSplitMessagePack(f *testing.F) {
	for _, c := range valueCases {
		encoded, err := msgpack.Marshal(map[string]any{"v": c.json})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
		w := codec.NewWriter(codec.MessagePack, nil)
		w.OpenMap()
		w.Key("v")
		Write(w, c.v)
		w.CloseMap()
		f.Add(w.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		members, err := Split(NewReader(codec.MessagePack), data, nil)
		if err != nil {
			return
		}
		if err := msgpack.Unmarshal(data, new(any)); err != nil && !strings.Contains(err.Error(), "unhashable") {
			t.Fatalf("another library cannot read it: %v", err)
		}
		readAll(t, codec.MessagePack, members)
	})
}

// readAll reads the members of a frame as values, and checks that what can be
// read is the same after writing and reading it once more.
func readAll(t *testing.T, e codec.Encoding, members []Member) {
	r := NewReader(e)
	for _, m := range members {
		r.Reset(m.Value, true)
		encoded, err := AppendValue(nil, r)
		if err != nil {
			continue
		}
		for _, e := range []codec.Encoding{codec.JSON, codec.MessagePack} {
			w := codec.NewWriter(e, nil)
			WriteValue(w, encoded)
			again, err := AppendValue(nil, open(t, e, w.Bytes()))
			w2 := codec.NewWriter(e, nil) // JSON has but one NaN, so texts are compared
			WriteValue(w2, again)
			if err != nil || !bytes.Equal(w.Bytes(), w2.Bytes()) {
				t.Fatalf("%q became %q, %v", encoded, again, err)
			}
		}
	}
}
