package value

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

var testUUID = UUID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}

// encodings pairs values with their smallest encoding.
var encodings = []struct {
	value any
	hex   string
}{
	{nil, "40"},
	{true, "41"},
	{false, "42"},
	{uint8(200), "50 c8"},
	{uint16(0x1234), "60 1234"},
	{uint32(0), "43"},
	{uint32(255), "52 ff"},
	{uint32(256), "70 00000100"},
	{uint64(0), "44"},
	{uint64(255), "53 ff"},
	{uint64(0x137000000c), "80 000000137000000c"},
	{int8(-1), "51 ff"},
	{int16(-2), "61 fffe"},
	{int32(-128), "54 80"},
	{int32(128), "71 00000080"},
	{int64(127), "55 7f"},
	{int64(-129), "81 ffffffffffffff7f"},
	{float32(1.5), "72 3fc00000"},
	{0.0, "82 0000000000000000"},
	{Decimal32{1, 2, 3, 4}, "74 01020304"},
	{Decimal64{1, 2}, "84 0102000000000000"},
	{Decimal128{15: 9}, "94 00000000000000000000000000000009"},
	{Char('é'), "73 000000e9"},
	{Timestamp(1000), "83 00000000000003e8"},
	{testUUID, "98 00112233445566778899aabbccddeeff"},
	{[]byte{1, 2}, "a0 02 0102"},
	{"hé", "a1 03 68c3a9"},
	{Symbol("ab"), "a3 02 6162"},
	{strings.Repeat("x", 256), "b1 00000100" + strings.Repeat("78", 256)},
	{List{}, "45"},
	{List{true, nil}, "c0 03 02 41 40"},
	{Map{}, "c1 01 00"},
	{Map{{Symbol("a"), int32(1)}, {"b", nil}}, "c1 0a 04 a30161 5401 a10162 40"},
	{ArrayOf[UUID](nil), "e0 02 00 98"},
	{ArrayOf([]int64{1, -1}), "e0 12 02 81 0000000000000001 ffffffffffffffff"},
	{ArrayOf([]Symbol{"a", "bc"}), "e0 07 02 a3 0161 026263"},
	{ArrayOf([]bool{true, false}), "e0 04 02 56 0100"},
	{Array{Elem: KindInt64, Descriptor: uint64(5), Values: []any{int64(2)}}, "e0 0d 01 00 5305 81 0000000000000002"},
	{Array{Elem: KindList, Values: []any{List{}, List{true}}}, "e0 13 02 d0 00000004 00000000 00000005 00000001 41"},
	{Described{uint64(0x24), List{}}, "00 5324 45"},
	{Described{Symbol("com.microsoft:timespan"), int64(9)}, "00 a316 636f6d2e6d6963726f736f66743a74696d657370616e 5509"},
}

// samples are further values for round trips.
var samples = []any{
	math.NaN(), float32(math.Inf(-1)), Char(0xd800), Timestamp(-1), "", Symbol(""),
	[]byte{},
	strings.Repeat("y", 70000),
	bytes.Repeat([]byte{7}, 300),
	List{List{List{"deep"}}, Map{{uint64(1), List{nil}}}},
	Map{{nil, 1.0}, {true, 2.0}, {[]byte("k"), 3.0}, {testUUID, 4.0}, {int8(1), 5.0}, {uint8(1), 6.0}},
	ArrayOf([]string{"a", strings.Repeat("long", 100)}),
	ArrayOf([][]byte{{1}, {}}),
	ArrayOf([]any{nil, nil, nil}),
	ArrayOf([]Map{{{"a", "b"}}, {}}),
	ArrayOf([]Array{ArrayOf([]uint32{1}), ArrayOf([]string{strings.Repeat("z", 300)})}),
	ArrayOf([]Timestamp{1, 2}), ArrayOf([]float32{1}), ArrayOf([]Char{'x'}), ArrayOf([]uint8{1}), ArrayOf([]int8{-1}),
	ArrayOf([]uint16{1}), ArrayOf([]int16{1}), ArrayOf([]uint64{1}), ArrayOf([]int32{1}), ArrayOf([]float64{1}),
	ArrayOf([]Decimal32{{1}}), ArrayOf([]Decimal64{{1}}), ArrayOf([]Decimal128{{1}}), ArrayOf([]UUID{testUUID}),
	Described{Described{"a", "b"}, Described{"c", nil}},
	manyEntries(200),
}

func manyEntries(n int) Map {
	m := make(Map, n)
	for i := range m {
		m[i] = Entry{int32(i), "v"}
	}
	return m
}

// refused are encodings that Decode and Skip refuse.
var refused = []struct{ name, hex, want string }{
	{"nothing", "", "the data ends before a value"},
	{"unknown constructor", "46", "unknown constructor 0x46"},
	{"unknown variable constructor", "a2 00", "unknown constructor 0xa2"},
	{"short fixed", "70 0000", "uint is truncated"},
	{"short string size", "b1 0000", "string is truncated"},
	{"short string", "a1 05 6162", "string of 5 bytes is truncated"},
	{"huge string", "b1 ffffffff 61", "string of 4294967295 bytes is truncated"},
	{"bad utf-8", "a1 02 c328", "not valid UTF-8"},
	{"bad utf-8 in symbol", "a3 01 ff", "not valid UTF-8"},
	{"bad boolean", "56 02", "boolean is 0x02"},
	{"bad char", "73 00110000", "not a Unicode code point"},
	{"list count too big for its bytes", "c0 02 05 40", "list has 5 elements in 1 bytes"},
	{"list count over the limit", "d0 00000005 ffffffff 40", "exceeds the limit"},
	{"list without a count", "c0 00", "list has no count"},
	{"wide list without a count", "d0 00000002 0000", "list has no count"},
	{"element beyond its list", "c0 03 01 a1 05 6162636465", "is truncated"},
	{"bytes after the last element", "c0 03 01 40 40", "1 bytes follow"},
	{"map of odd count", "c1 04 03 40 40 41", "key without a value"},
	{"map with the same key", "c1 0c 04 a10161 40 b100000001 61 40", "same key twice"},
	{"map with the same number", "c1 06 04 52 00 40 43 40", "same key twice"},
	{"map with a list as key", "c1 03 02 45 40", "map key is of type list"},
	{"array without constructor", "e0 01 00", "no element constructor"},
	{"array of unknown constructor", "e0 02 00 01", "unknown constructor 0x01"},
	{"array of nulls over the limit", "f0 00000005 00ffffff 40", "exceeds the limit"},
	{"array with bytes left", "e0 04 01 50 01 02", "1 bytes follow"},
	{"array cut short", "e0 03 02 50 01", "ubyte is truncated"},
	{"array described twice", "e0 07 01 00 5301 00 5302 40", "unknown constructor 0x00"},
	{"descriptor without value", "00 5324", "the data ends before a value"},
	{"descriptor alone", "00", "the data ends before a value"},
	{"deep lists", nestedLists(33), "nested deeper than 32"},
	{"deep descriptors", strings.Repeat("00", 40), "nested deeper than 32"},
}

// nestedLists returns the encoding of n lists around nothing.
func nestedLists(n int) string {
	b := []byte{codeList0}
	for range n - 1 {
		list, mark := OpenList(nil)
		b = CloseList(append(list, b...), mark, 1)
	}
	return hex.EncodeToString(b)
}

func TestAppendWritesTheSmallestEncoding(t *testing.T) {
	t.Parallel()
	for _, c := range encodings {
		got, err := Append([]byte("before"), c.value)
		if err != nil {
			t.Errorf("%#v: %v", c.value, err)
			continue
		}
		if want := append([]byte("before"), unhex(c.hex)...); !bytes.Equal(got, want) {
			t.Errorf("%#v: got %x, want %x", c.value, got[6:], want[6:])
		}
	}
}

func TestValuesSurviveARoundTrip(t *testing.T) {
	t.Parallel()
	values := samples
	for _, c := range encodings {
		values = append(values, c.value)
	}
	for _, v := range values {
		b, err := Append(nil, v)
		if err != nil {
			t.Errorf("%#v: %v", v, err)
			continue
		}
		got, rest, err := Decode(append(b, "after"...), Limits{})
		if err != nil || string(rest) != "after" || !Equal(got, v) {
			t.Errorf("got %#v, rest %q, %v, want %#v", got, rest, err, v)
		}
	}
}

func TestWideFormsAreRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hex  string
		want any
	}{
		{"56 01", true},
		{"56 00", false},
		{"70 00000001", uint32(1)},
		{"80 0000000000000001", uint64(1)},
		{"71 ffffffff", int32(-1)},
		{"81 ffffffffffffffff", int64(-1)},
		{"b0 00000001 07", []byte{7}},
		{"b3 00000001 61", Symbol("a")},
		{"c0 01 00", List{}},
		{"d0 00000005 00000001 40", List{nil}},
		{"d1 00000006 00000002 40 41", Map{{nil, true}}},
		{"f0 00000007 00000002 52 0102", ArrayOf([]uint32{1, 2})},
		{"e0 04 02 55 01ff", ArrayOf([]int64{1, -1})},
		{"e0 02 03 45", ArrayOf([]List{{}, {}, {}})},
		{"e0 02 02 41", ArrayOf([]bool{true, true})},
	} {
		got, rest, err := Decode(unhex(c.hex), Limits{})
		if err != nil || len(rest) != 0 || !Equal(got, c.want) {
			t.Errorf("%s: got %#v, %v, want %#v", c.hex, got, err, c.want)
		}
	}
}

func TestInvalidBytesAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range refused {
		_, _, err := Decode(unhex(c.hex), Limits{})
		_, skipErr := Skip(unhex(c.hex), Limits{})
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Msg, c.want) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.want)
		}
		if skipErr == nil || err == nil || skipErr.Error() != err.Error() {
			t.Errorf("%s: Skip says %v, Decode %v", c.name, skipErr, err)
		}
	}
}

func TestErrorsNameTheOffset(t *testing.T) {
	t.Parallel()
	_, err := Skip(unhex("c0 05 02 40 c0 01 01"), Limits{})
	var e *Error
	if !errors.As(err, &e) || e.Offset != 4 {
		t.Fatalf("got %v, want an error at byte 4", err)
	}
}

func TestDepthAndElementLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		hex  string
		lim  Limits
		ok   bool
	}{
		{"depth reached", nestedLists(3), Limits{Depth: 3}, true},
		{"depth exceeded", nestedLists(4), Limits{Depth: 3}, false},
		{"elements reached", "c0 05 03 40 40 c0 01 00", Limits{Elements: 3}, false}, // cut short
		{"elements at the limit", "c0 08 03 40 c0 03 02 41 42 40", Limits{Elements: 5}, true},
		{"elements over the limit", "c0 08 03 40 c0 03 02 41 42 40", Limits{Elements: 4}, false},
		{"nulls at the limit", "e0 02 04 40", Limits{Elements: 4}, true},
		{"nulls over the limit", "e0 02 04 40", Limits{Elements: 3}, false},
	} {
		if _, err := Skip(unhex(c.hex), c.lim); (err == nil) != c.ok {
			t.Errorf("%s: got %v, want accepted %t", c.name, err, c.ok)
		}
	}
}

func TestAppendRefusesWhatDecodeWould(t *testing.T) {
	t.Parallel()
	deep := any(List{})
	for range 40 {
		deep = List{deep}
	}
	for _, c := range []struct {
		name  string
		value any
	}{
		{"foreign type", 1},
		{"foreign type inside", List{struct{}{}}},
		{"bad utf-8", "\xff"},
		{"bad utf-8 in symbol", Map{{Symbol("\xff"), nil}}},
		{"bad char", Char(-1)},
		{"duplicate key", Map{{"a", 1.0}, {"a", 2.0}}},
		{"many entries with a duplicate", append(manyEntries(100), Entry{int32(5), nil})},
		{"list as key", Map{{List{}, nil}}},
		{"mixed array", Array{Values: []any{"a", Symbol("b")}}},
		{"untyped empty array", Array{}},
		{"array of described", Array{Values: []any{Described{"a", "b"}}}},
		{"bad value in a descriptor", Described{1, nil}},
		{"too deep", deep},
	} {
		dst := []byte("before")
		got, err := Append(dst, c.value)
		if err == nil || string(got) != "before" {
			t.Errorf("%s: got %x, %v, want an error and dst unchanged", c.name, got, err)
		}
	}
}

func TestKeysAreTheSameOnlyWithinAType(t *testing.T) {
	t.Parallel()
	m := Map{{"a", 1.0}, {Symbol("a"), 2.0}, {[]byte("a"), 3.0}, {uint32(1), 4.0}, {uint64(1), 5.0}, {int32(1), 6.0}}
	if _, err := Append(nil, m); err != nil {
		t.Fatalf("got %v, want distinct keys", err)
	}
}

func TestDecodedValuesShareNothingWithTheInput(t *testing.T) {
	t.Parallel()
	b := AppendBinary(nil, []byte("abc"))
	v, _, err := Decode(b, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	b[2] = 'X'
	if got := string(v.([]byte)); got != "abc" {
		t.Fatalf("got %q after the input changed, want %q", got, "abc")
	}
}

func TestCompoundsGrowBeyond255Bytes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 83, 84, 85, 86, 254, 255, 256, 5000} {
		dst, outer := OpenList([]byte{9})
		dst, inner := OpenMap(dst)
		for i := range n {
			dst = AppendUint16(dst, uint16(i))
			dst = AppendNull(dst)
		}
		dst = CloseList(CloseMap(dst, inner, n), outer, 1)
		v, rest, err := Decode(dst[1:], Limits{})
		if err != nil || len(rest) != 0 {
			t.Fatalf("%d entries: %v", n, err)
		}
		if got := len(v.(List)[0].(Map)); got != n {
			t.Fatalf("got %d entries, want %d", got, n)
		}
	}
}

func TestMapEntriesYieldsTextKeysAndEncodedValues(t *testing.T) {
	t.Parallel()
	b, err := Append(nil, Map{{Symbol("a"), int32(1)}, {uint64(7), "passed over"}, {"b", Described{"d", nil}}})
	if err != nil {
		t.Fatal(err)
	}
	var got Map
	for k, v := range MapEntries(b) {
		d, rest, err := Decode(v, Limits{})
		if err != nil || len(rest) != 0 {
			t.Fatalf("%s: %v", k, err)
		}
		got = append(got, Entry{string(k), d})
	}
	if want := (Map{{"a", int32(1)}, {"b", Described{"d", nil}}}); !Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestAppendMapRawKeepsValues(t *testing.T) {
	t.Parallel()
	src, err := Append(nil, Map{{"a", int32(1)}, {"b", List{"c"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := AppendMapRaw(nil, MapEntries(src), false); !bytes.Equal(got, src) {
		t.Errorf("got %x, want %x", got, src)
	}
	want, err := Append(nil, Map{{Symbol("a"), int32(1)}, {Symbol("b"), List{"c"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := AppendMapRaw(nil, MapEntries(src), true); !bytes.Equal(got, want) {
		t.Errorf("with symbols: got %x, want %x", got, want)
	}
}

func TestEqualDistinguishesTypesAndOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b any
		want bool
	}{
		{nil, nil, true},
		{nil, false, false},
		{int32(1), int64(1), false},
		{"a", Symbol("a"), false},
		{math.NaN(), math.NaN(), true},
		{0.0, math.Copysign(0, -1), false},
		{[]byte(nil), []byte{}, true},
		{List{1.0}, List{1.0, 2.0}, false},
		{Map{{"a", 1.0}, {"b", 2.0}}, Map{{"b", 2.0}, {"a", 1.0}}, false},
		{ArrayOf([]int32{1}), Array{Values: []any{int32(1)}}, true},
		{ArrayOf[int32](nil), ArrayOf[int64](nil), false},
		{Described{"d", 1.0}, Described{"e", 1.0}, false},
		{1, 1, false},
	} {
		if got := Equal(c.a, c.b); got != c.want {
			t.Errorf("Equal(%#v, %#v): got %t, want %t", c.a, c.b, got, c.want)
		}
	}
}

func TestMapGetTakesStringsAndSymbols(t *testing.T) {
	t.Parallel()
	m := Map{{uint64(1), 1.0}, {"a", 2.0}, {Symbol("b"), 3.0}}
	for _, c := range []struct {
		key  string
		want any
	}{{"a", 2.0}, {"b", 3.0}, {"c", nil}} {
		if got, ok := m.Get(c.key); got != c.want || ok != (c.want != nil) {
			t.Errorf("Get(%q): got %v, %t, want %v", c.key, got, ok, c.want)
		}
	}
}

func TestReadersTakeOnlyTheirType(t *testing.T) {
	t.Parallel()
	readers := map[Kind]func([]byte) ([]byte, error){
		KindBool:      func(b []byte) ([]byte, error) { _, r, err := ReadBool(b); return r, err },
		KindUint8:     func(b []byte) ([]byte, error) { _, r, err := ReadUint8(b); return r, err },
		KindUint16:    func(b []byte) ([]byte, error) { _, r, err := ReadUint16(b); return r, err },
		KindUint32:    func(b []byte) ([]byte, error) { _, r, err := ReadUint32(b); return r, err },
		KindUint64:    func(b []byte) ([]byte, error) { _, r, err := ReadUint64(b); return r, err },
		KindInt32:     func(b []byte) ([]byte, error) { _, r, err := ReadInt32(b); return r, err },
		KindInt64:     func(b []byte) ([]byte, error) { _, r, err := ReadInt64(b); return r, err },
		KindTimestamp: func(b []byte) ([]byte, error) { _, r, err := ReadTimestamp(b); return r, err },
		KindUUID:      func(b []byte) ([]byte, error) { _, r, err := ReadUUID(b); return r, err },
		KindBinary:    func(b []byte) ([]byte, error) { _, r, err := ReadBinary(b); return r, err },
		KindString:    func(b []byte) ([]byte, error) { _, r, err := ReadString(b); return r, err },
		KindSymbol:    func(b []byte) ([]byte, error) { _, r, err := ReadSymbol(b); return r, err },
		KindList:      func(b []byte) ([]byte, error) { _, _, r, err := ReadList(b); return r, err },
		KindMap:       func(b []byte) ([]byte, error) { _, _, r, err := ReadMap(b); return r, err },
	}
	for kind, read := range readers {
		for _, c := range encodings {
			b := append(unhex(c.hex), 'r')
			rest, err := read(b)
			if ok := KindOf(b) == kind; (err == nil) != ok || ok && string(rest) != "r" {
				t.Errorf("reading %s as %s: rest %q, %v", c.hex, kind, rest, err)
			}
			if _, err := read(b[:1]); err == nil && len(b) > 2 {
				t.Errorf("reading %x as %s: want an error for missing bytes", b[:1], kind)
			}
		}
	}
}

func TestReadersReturnValues(t *testing.T) {
	t.Parallel()
	if v, _, err := ReadInt64(unhex("55 80")); v != -128 || err != nil {
		t.Errorf("ReadInt64: got %d, %v", v, err)
	}
	if v, _, err := ReadInt32(unhex("71 80000000")); v != math.MinInt32 || err != nil {
		t.Errorf("ReadInt32: got %d, %v", v, err)
	}
	if v, _, err := ReadUint32(unhex("70 ffffffff")); v != math.MaxUint32 || err != nil {
		t.Errorf("ReadUint32: got %d, %v", v, err)
	}
	if v, _, err := ReadBool(unhex("56 01")); !v || err != nil {
		t.Errorf("ReadBool: got %t, %v", v, err)
	}
	if v, _, err := ReadText(unhex("a3 01 61")); string(v) != "a" || err != nil {
		t.Errorf("ReadText of a symbol: got %q, %v", v, err)
	}
	if v, _, err := ReadText(unhex("a1 01 61")); string(v) != "a" || err != nil {
		t.Errorf("ReadText of a string: got %q, %v", v, err)
	}
	for _, bad := range []string{"56 02", "a1 01 ff", "c1 02 01 40", "d0 00000005 00000009 40", "c0 00", "d0 00000000"} {
		b := unhex(bad)
		_, _, errBool := ReadBool(b)
		_, _, errText := ReadText(b)
		_, _, _, errList := ReadList(b)
		_, _, _, errMap := ReadMap(b)
		if errBool == nil || errText == nil || errList == nil || errMap == nil {
			t.Errorf("%s: want errors from every reader", bad)
		}
	}
}

func TestUUIDText(t *testing.T) {
	t.Parallel()
	const text = "00112233-4455-6677-8899-aabbccddeeff"
	if got := testUUID.String(); got != text {
		t.Errorf("got %s, want %s", got, text)
	}
	for _, s := range []string{text, strings.ToUpper(text)} {
		if got, err := ParseUUID(s); err != nil || got != testUUID {
			t.Errorf("ParseUUID(%s): got %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", text[1:], strings.ReplaceAll(text, "-", "0"), "g" + text[1:], text + "0"} {
		if _, err := ParseUUID(s); err == nil {
			t.Errorf("ParseUUID(%q): want an error", s)
		}
	}
}

func TestTimestampKeepsMilliseconds(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 678_900_000, time.FixedZone("", 3600))
	if got, want := TimestampOf(at).Time(), at.UTC().Truncate(time.Millisecond); !got.Equal(want) || got.Location() != time.UTC {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestKindNames(t *testing.T) {
	t.Parallel()
	for k := KindInvalid; k <= KindDescribed; k++ {
		if k.String() == "" {
			t.Errorf("kind %d has no name", uint8(k))
		}
	}
	if got, want := Kind(99).String(), "kind(99)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	b, err := Append(nil, Map{{"a", "text"}, {"b", List{int64(1), testUUID}}, {"c", ArrayOf([]string{"x"})}})
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Skip(b, Limits{}); err != nil {
			t.Fatal(err)
		}
		for k := range MapEntries(b) {
			if len(k) != 1 {
				t.Fatal("bad key")
			}
		}
	}); n != 0 {
		t.Fatalf("got %v allocations, want 0", n)
	}
}

func TestOptFallsBackOnlyWhenAbsent(t *testing.T) {
	t.Parallel()
	if got := Some(0).Or(4); got != 0 {
		t.Errorf("got %d for a present zero, want 0", got)
	}
	if got := (Opt[int]{}).Or(4); got != 4 {
		t.Errorf("got %d for an absent value, want 4", got)
	}
}
