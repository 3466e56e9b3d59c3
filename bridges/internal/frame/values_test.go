package frame

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

var someUUID = value.UUID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}

// valueCases are AMQP values with their forms in JSON and, as the library that
// is our second opinion sees it, in MessagePack ("" where that is what JSON has).
var valueCases = []struct {
	name string
	v    any
	json string
	pack any
}{
	{"null", nil, `null`, nil},
	{"boolean", true, `true`, true},
	{"string", "Straße \"\\\n\x01€\U0001F600", `"Straße \"\\\n\u0001€😀"`, "Straße \"\\\n\x01€\U0001F600"},
	{"long", int64(-5), `-5`, int64(-5)},
	{"largest plain long", int64(1<<53 - 1), `9007199254740991`, int64(1<<53 - 1)},
	{"long beyond", int64(1 << 53), `{"$long":"9007199254740992"}`, int64(1 << 53)},
	{"largest long", int64(math.MaxInt64), `{"$long":"9223372036854775807"}`, int64(math.MaxInt64)},
	{"least long", int64(math.MinInt64), `{"$long":"-9223372036854775808"}`, int64(math.MinInt64)},
	{"double", 12.5, `12.5`, 12.5},
	{"whole double", float64(3), `{"$double":3}`, float64(3)},
	{"minus zero", math.Copysign(0, -1), `{"$double":-0}`, math.Copysign(0, -1)},
	{"large double", 1e300, `1e+300`, 1e300},
	{"infinite double", math.Inf(-1), `{"$double":"-Infinity"}`, math.Inf(-1)},
	{"no number", math.NaN(), `{"$double":"NaN"}`, math.NaN()},
	{"int", int32(math.MinInt32), `{"$int":-2147483648}`, map[string]any{"$int": int64(math.MinInt32)}},
	{"short", int16(-300), `{"$short":-300}`, map[string]any{"$short": int64(-300)}},
	{"byte", int8(-128), `{"$byte":-128}`, map[string]any{"$byte": int64(-128)}},
	{"uint", uint32(math.MaxUint32), `{"$uint":4294967295}`, map[string]any{"$uint": int64(math.MaxUint32)}},
	{"ushort", uint16(65535), `{"$ushort":65535}`, map[string]any{"$ushort": int64(65535)}},
	{"ubyte", uint8(255), `{"$ubyte":255}`, map[string]any{"$ubyte": int64(255)}},
	{"ulong", uint64(5), `{"$ulong":5}`, map[string]any{"$ulong": int64(5)}},
	{"largest ulong", uint64(math.MaxUint64), `{"$ulong":"18446744073709551615"}`, uint64(math.MaxUint64)},
	{"float", float32(1.5), `{"$float":1.5}`, float32(1.5)},
	{"infinite float", float32(math.Inf(1)), `{"$float":"Infinity"}`, float32(math.Inf(1))},
	{"decimal32", value.Decimal32{0, 0x11, 0x22, 0x33}, `{"$decimal32":"00112233"}`, map[string]any{"$decimal32": "00112233"}},
	{"decimal64", value.Decimal64{0, 0x11, 0x22, 0x33, 0xaa, 0xbb, 0xcc, 0xdd}, `{"$decimal64":"00112233aabbccdd"}`, map[string]any{"$decimal64": "00112233aabbccdd"}},
	{"decimal128", value.Decimal128(someUUID), `{"$decimal128":"00112233445566778899aabbccddeeff"}`, map[string]any{"$decimal128": "00112233445566778899aabbccddeeff"}},
	{"timestamp", value.Timestamp(1769860800000), `{"$timestamp":"2026-01-31T12:00:00.000Z"}`, instant(1769860800000)},
	{"timestamp with ms", value.Timestamp(1769860800123), `{"$timestamp":"2026-01-31T12:00:00.123Z"}`, instant(1769860800123)},
	{"timestamp before 1970", value.Timestamp(-1), `{"$timestamp":"1969-12-31T23:59:59.999Z"}`, instant(-1)},
	{"timestamp after 9999", value.Timestamp(253402300800000), `{"$timestamp":253402300800000}`, instant(253402300800000)},
	{"uuid", someUUID, `{"$uuid":"00112233-4455-6677-8899-aabbccddeeff"}`, map[string]any{"$uuid": "00112233-4455-6677-8899-aabbccddeeff"}},
	{"binary", []byte{0, 0xff, 0x10}, `{"$binary":"AP8Q"}`, []byte{0, 0xff, 0x10}},
	{"empty binary", []byte{}, `{"$binary":""}`, []byte{}},
	{"symbol", value.Symbol("x-opt"), `{"$symbol":"x-opt"}`, map[string]any{"$symbol": "x-opt"}},
	{"char", value.Char('€'), `{"$char":"€"}`, map[string]any{"$char": "€"}},
	{"half a pair", value.Char(0xd83d), `{"$char":55357}`, map[string]any{"$char": int64(0xd83d)}},
	{"list", value.List{int64(1), "a", value.List{}}, `[1,"a",[]]`, []any{int64(1), "a", []any{}}},
	{"map", value.Map{{Key: "k", Value: int32(1)}, {Key: "$l", Value: nil}}, `{"k":{"$int":1},"$l":null}`, map[string]any{"k": map[string]any{"$int": int64(1)}, "$l": nil}},
	{"empty map", value.Map{}, `{}`, map[string]any{}},
	{"map like a tag", value.Map{{Key: "$int", Value: "x"}}, `{"$map":[["$int","x"]]}`, map[string]any{"$map": []any{[]any{"$int", "x"}}}},
	{"map of other keys", value.Map{{Key: int32(1), Value: "x"}}, `{"$map":[[{"$int":1},"x"]]}`, map[string]any{"$map": []any{[]any{map[string]any{"$int": int64(1)}, "x"}}}},
	{"array", value.ArrayOf([]int64{1, 1 << 60}), `{"$array":["long",[1,"1152921504606846976"]]}`, map[string]any{"$array": []any{"long", []any{int64(1), int64(1 << 60)}}}},
	{"empty array", value.Array{Elem: value.KindUUID, Values: []any{}}, `{"$array":["uuid",[]]}`, map[string]any{"$array": []any{"uuid", []any{}}}},
	{"described array", value.Array{Elem: value.KindString, Descriptor: value.Symbol("d"), Values: []any{"x"}}, `{"$array":["string",["x"],{"$symbol":"d"}]}`, map[string]any{"$array": []any{"string", []any{"x"}, map[string]any{"$symbol": "d"}}}},
	{"array of maps", value.Array{Elem: value.KindMap, Values: []any{value.Map{{Key: "a", Value: true}}}}, `{"$array":["map",[[["a",true]]]]}`, map[string]any{"$array": []any{"map", []any{[]any{[]any{"a", true}}}}}},
	{"described", value.Described{Descriptor: value.Symbol("com.microsoft:timespan"), Value: int64(7)}, `{"$described":[{"$symbol":"com.microsoft:timespan"},7]}`, map[string]any{"$described": []any{map[string]any{"$symbol": "com.microsoft:timespan"}, int64(7)}}},
	{"described by a number", value.Described{Descriptor: uint64(1), Value: nil}, `{"$described":[{"$ulong":1},null]}`, map[string]any{"$described": []any{map[string]any{"$ulong": int64(1)}, nil}}},
}

// instant is what the other library makes of a timestamp, in milliseconds.
type instant int64

func TestEveryValueIsWrittenInItsFormAndReadBack(t *testing.T) {
	t.Parallel()
	for _, c := range valueCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			encoded, err := value.Append(nil, c.v)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range []codec.Encoding{codec.JSON, codec.MessagePack} {
				w := codec.NewWriter(e, nil)
				WriteValue(w, encoded)
				if e == codec.JSON && string(w.Bytes()) != c.json {
					t.Errorf("got %s, want %s", w.Bytes(), c.json)
				}
				if e == codec.MessagePack {
					if got := foreign(t, w.Bytes()); !sameForeign(got, c.pack) {
						t.Errorf("MessagePack: got %#v, want %#v", got, c.pack)
					}
				}
				back, err := AppendValue(nil, open(t, e, w.Bytes()))
				if err != nil {
					t.Fatalf("read back: %v", err)
				}
				v, rest, err := value.Decode(back, value.Limits{})
				if err != nil || len(rest) > 0 || !value.Equal(v, c.v) {
					t.Errorf("read back: got %#v, %v, want %#v", v, err, c.v)
				}
			}
		})
	}
}

func TestAllTypesHaveACase(t *testing.T) {
	t.Parallel()
	seen := map[value.Kind]bool{}
	for _, c := range valueCases {
		encoded, err := value.Append(nil, c.v)
		if err != nil {
			t.Fatal(err)
		}
		seen[value.KindOf(encoded)] = true
	}
	for k := value.KindNull; k <= value.KindDescribed; k++ {
		if !seen[k] {
			t.Errorf("%s has no case", k)
		}
	}
}

func TestReadingIsLiberal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		json string
		want any
	}{
		{`{"$long": 7}`, int64(7)},
		{`{"$long": "7"}`, int64(7)},
		{`9007199254740993`, int64(9007199254740993)},
		{`{"$int": "-7"}`, int32(-7)},
		{`{"$ulong": 18446744073709551615}`, uint64(math.MaxUint64)},
		{`{"$double": "NaN"}`, math.NaN()},
		{`{"$double": 0.5}`, 0.5},
		{`{"$double": "-0"}`, math.Copysign(0, -1)},
		{`{"$float": 3}`, float32(3)},
		{`1e2`, float64(100)},
		{`{"$timestamp": "2026-01-31T13:00:00+01:00"}`, value.Timestamp(1769860800000)},
		{`{"$timestamp": 1769860800000}`, value.Timestamp(1769860800000)},
		{`{"$binary": "AP8"}`, []byte{0, 0xff}},
		{`{"$uuid": "00112233-4455-6677-8899-AABBCCDDEEFF"}`, someUUID},
		{`"\ud83d\ude00"`, "\U0001F600"},
		{`"\ud83d"`, "\uFFFD"},
		{`"\ude00\u0041"`, "\uFFFDA"},
		{` { "$int" : 5 } `, int32(5)},
		{`{"$string": 5, "b": 1}`, value.Map{{Key: "$string", Value: int64(5)}, {Key: "b", Value: int64(1)}}},
	} {
		got, err := Read(open(t, codec.JSON, []byte(c.json)))
		if err != nil || !value.Equal(got, c.want) {
			t.Errorf("%s: got %#v, %v, want %#v", c.json, got, err, c.want)
		}
	}
}

func TestInvalidValuesAreRefusedWithTheirPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		json string
		code core.Code
		path string
	}{
		{`{"$int": 2147483648}`, core.OutOfRange, "$int"},
		{`{"$ubyte": 256}`, core.OutOfRange, "$ubyte"},
		{`{"$ubyte": -1}`, core.OutOfRange, "$ubyte"},
		{`{"$byte": -129}`, core.OutOfRange, "$byte"},
		{`{"$long": "9223372036854775808"}`, core.OutOfRange, "$long"},
		{`{"$long": "seven"}`, core.InvalidArgument, "$long"},
		{`{"$long": 1.5}`, core.InvalidArgument, "$long"},
		{`18446744073709551616`, core.OutOfRange, ""},
		{`9223372036854775808`, core.OutOfRange, ""},
		{`1e999`, core.OutOfRange, ""},
		{`{"$float": 1e39}`, core.OutOfRange, "$float"},
		{`{"$double": "much"}`, core.InvalidArgument, "$double"},
		{`{"$decimal32": "0011"}`, core.InvalidArgument, "$decimal32"},
		{`{"$decimal32": "0011223g"}`, core.InvalidArgument, "$decimal32"},
		{`{"$uuid": "0011"}`, core.InvalidArgument, "$uuid"},
		{`{"$binary": "**"}`, core.InvalidArgument, "$binary"},
		{`{"$timestamp": "yesterday"}`, core.InvalidArgument, "$timestamp"},
		{`{"$char": "ab"}`, core.InvalidArgument, "$char"},
		{`{"$char": ""}`, core.InvalidArgument, "$char"},
		{`{"$symbol": 1}`, core.InvalidArgument, "$symbol"},
		{`{"$what": 1}`, core.InvalidArgument, ""},
		{`{"a": [1, {"$what": 1}]}`, core.InvalidArgument, "a[1]"},
		{`{"$map": [["a"]]}`, core.InvalidArgument, "$map[0]"},
		{`{"$map": [["a", 1], ["a", 2]]}`, core.InvalidArgument, ""},
		{`{"$map": [[[1], 2]]}`, core.InvalidArgument, ""},
		{`{"a": 1, "a": 2}`, core.InvalidArgument, ""},
		{`{"$array": ["int", [1, "x"]]}`, core.InvalidArgument, "$array[1][1]"},
		{`{"$array": ["what", []]}`, core.InvalidArgument, "$array"},
		{`{"$array": ["int"]}`, core.InvalidArgument, "$array"},
		{`{"$array": ["null", [1]]}`, core.InvalidArgument, "$array[1][0]"},
		{`{"$described": [1]}`, core.InvalidArgument, "$described"},
		{`{"$described": [1, 2, 3]}`, core.InvalidArgument, "$described"},
		{strings.Repeat("[", 33) + strings.Repeat("]", 33), core.InvalidArgument, strings.Repeat("[0]", 32)},
	} {
		_, err := AppendValue(nil, open(t, codec.JSON, []byte(c.json)))
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Code != c.code || e.Path != c.path {
			t.Errorf("%s: got %#v, want %s at %q", c.json, err, c.code, c.path)
		}
	}
	deep := strings.Repeat("[", 32) + `{"$int":1}` + strings.Repeat("]", 32)
	if _, err := AppendValue(nil, open(t, codec.JSON, []byte(deep))); err != nil {
		t.Errorf("32 lists around a tagged number: %v", err)
	}
}

// open checks a value as part of a frame and returns a reader of it.
func open(t testing.TB, e codec.Encoding, data []byte) *codec.Reader {
	t.Helper()
	w := codec.NewWriter(e, nil)
	w.OpenMap()
	w.Key("v")
	framed := append(w.Bytes(), data...)
	if e == codec.JSON {
		framed = append(framed, '}')
	} else {
		framed[0]++
	}
	r := NewReader(e)
	members, err := Split(r, framed, nil)
	if err != nil || len(members) != 1 {
		t.Fatalf("split %q: %v, %v", framed, members, err)
	}
	r.Reset(members[0].Value, true)
	return r
}

// foreign decodes with another library.
func foreign(t *testing.T, data []byte) any {
	t.Helper()
	d := msgpack.NewDecoder(bytes.NewReader(data))
	d.UseLooseInterfaceDecoding(false)
	v, err := d.DecodeInterface()
	if err != nil {
		t.Fatalf("%x: %v", data, err)
	}
	return v
}
