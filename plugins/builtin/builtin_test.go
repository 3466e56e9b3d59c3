package builtin

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

func named(t testing.TB, name string) core.Serializer {
	t.Helper()
	s := Named(name)
	if s == nil {
		t.Fatalf("there is no serializer %s", name)
	}
	return s
}

// encode writes a value as the first of the serializer's types.
func encode(t testing.TB, s core.Serializer, v any) ([]byte, error) {
	t.Helper()
	want := s.ContentTypes()[0]
	payload, produced, err := s.Encode(t.Context(), want, v)
	if err == nil && !strings.HasPrefix(produced, want) {
		t.Errorf("%#v: got %s, want %s", v, produced, want)
	}
	return payload, err
}

func decimal(t testing.TB, s string) value.Decimal128 {
	t.Helper()
	d, ok := value.ParseDecimal128(s)
	if !ok {
		t.Fatalf("%s is not a decimal", s)
	}
	return d
}

// same is what is read back as it was written.
var same = new(int)

// refused is what cannot be written.
var refused = new(int)

func TestValuesThroughEachFormat(t *testing.T) {
	t.Parallel()
	id := value.UUID{0: 0x12, 15: 0x34}
	const idText = "12000000-0000-0000-0000-000000000034"
	d12 := decimal(t, "12.50")
	for _, c := range []struct {
		v                               any
		json, msgpack, cbor, amqp, text any // what is read back
	}{
		{nil, same, same, same, same, ""},
		{true, same, same, same, same, "true"},
		{false, same, same, same, same, "false"},
		{uint8(200), int64(200), int64(200), int64(200), same, "200"},
		{uint16(60000), int64(60000), int64(60000), int64(60000), same, "60000"},
		{uint32(1 << 31), int64(1 << 31), int64(1 << 31), int64(1 << 31), same, "2147483648"},
		{int8(-100), int64(-100), int64(-100), int64(-100), same, "-100"},
		{int16(-30000), int64(-30000), int64(-30000), int64(-30000), same, "-30000"},
		{int32(-1 << 31), int64(-1 << 31), int64(-1 << 31), int64(-1 << 31), same, "-2147483648"},
		{int64(0), same, same, same, same, "0"},
		{int64(-33), same, same, same, same, "-33"},
		{int64(1<<53 + 1), same, same, same, same, "9007199254740993"},
		{int64(math.MaxInt64), same, same, same, same, "9223372036854775807"},
		{int64(math.MinInt64), same, same, same, same, "-9223372036854775808"},
		{uint64(math.MaxUint64), same, same, same, same, "18446744073709551615"},
		{uint64(7), int64(7), int64(7), int64(7), same, "7"},
		{float32(0.1), 0.1, same, same, same, "0.1"},
		{2.0, same, same, same, same, "2.0"},
		{0.1, same, same, same, same, "0.1"},
		{math.MaxFloat64, same, same, same, same, "1.7976931348623157e+308"},
		{math.SmallestNonzeroFloat64, same, same, same, same, "5e-324"},
		{math.Inf(-1), "-Infinity", same, same, same, "-Infinity"},
		{math.NaN(), "NaN", same, same, same, "NaN"},
		{d12, 12.5, "12.50", same, same, "12.50"},
		{decimal(t, "18446744073709551616"), same, "18446744073709551616", same, same, "18446744073709551616"},
		{decimal(t, "-0.1234567890123456789012345678901234"), same, "-0.1234567890123456789012345678901234", same, same, "-0.1234567890123456789012345678901234"},
		{decimal(t, "1E-6000"), same, "1E-6000", same, same, "1E-6000"},
		{value.Decimal64{0x31, 0xa0, 0, 0, 0, 0, 0, 0x7b}, 12.3, "12.3", decimal(t, "12.3"), same, "12.3"},
		{value.Decimal32{0x7c}, "NaN", "NaN", float32(math.NaN()), same, "NaN"},
		{"", same, same, same, same, ""},
		{"grüße \x00\"\\😀\u2028", same, same, same, same, same},
		{strings.Repeat("x", 70000), same, same, same, same, same},
		{value.Symbol("s"), "s", "s", "s", same, "s"},
		{value.Char('é'), "é", "é", "é", same, "é"},
		{[]byte("hi"), "aGk=", same, same, same, "hi"},
		{[]byte{}, "", same, same, same, ""},
		{[]byte{0xff}, "/w==", same, same, same, refused},
		{value.Timestamp(1_700_000_000_000), "2023-11-14T22:13:20.000Z", same, same, same, "2023-11-14T22:13:20.000Z"},
		{value.Timestamp(1_700_000_000_123), "2023-11-14T22:13:20.123Z", same, same, same, "2023-11-14T22:13:20.123Z"},
		{value.Timestamp(-1), "1969-12-31T23:59:59.999Z", same, same, same, "1969-12-31T23:59:59.999Z"},
		{id, idText, idText, same, same, idText},
		{value.List{}, same, same, same, same, refused},
		{value.List{int64(1), nil, "x", value.List{true}}, same, same, same, same, refused},
		{value.ArrayOf([]string{"a"}), value.List{"a"}, value.List{"a"}, value.List{"a"}, same, refused},
		{value.Map{}, same, same, same, same, refused},
		{value.Map{{Key: "b", Value: int64(1)}, {Key: "a", Value: value.Map{{Key: "", Value: nil}}}}, same, same, same, same, refused},
		{value.Map{{Key: int64(3), Value: "x"}}, value.Map{{Key: "3", Value: "x"}}, same, same, same, refused},
		{value.Map{{Key: int64(3), Value: "x"}, {Key: "3", Value: "y"}}, refused, same, same, same, refused},
		{value.Described{Descriptor: value.DescriptorURI, Value: "urn:x"}, "urn:x", "urn:x", "urn:x", same, "urn:x"},
		{value.Described{Descriptor: value.Symbol("msgpack:5"), Value: []byte("ab")}, value.Map{{Key: "descriptor", Value: "msgpack:5"}, {Key: "value", Value: "YWI="}}, same, value.Map{{Key: "descriptor", Value: "msgpack:5"}, {Key: "value", Value: []byte("ab")}}, same, refused},
		{value.Described{Descriptor: uint64(1000), Value: "x"}, value.Map{{Key: "descriptor", Value: int64(1000)}, {Key: "value", Value: "x"}}, value.Map{{Key: "descriptor", Value: int64(1000)}, {Key: "value", Value: "x"}}, same, same, refused},
		{struct{}{}, nil, refused, refused, refused, refused},
	} {
		for name, want := range map[string]any{JSON: c.json, MessagePack: c.msgpack, CBOR: c.cbor, AMQP: c.amqp, Text: c.text} {
			s := named(t, name)
			payload, err := encode(t, s, c.v)
			if (err != nil) != (want == refused) {
				t.Errorf("%s: encode %#v: got %v, want %#v", name, c.v, err, want)
			}
			if err != nil {
				continue
			}
			if want == same {
				want = c.v
			}
			got, err := s.Decode(t.Context(), "", payload)
			if err != nil || !value.Equal(got, want) {
				t.Errorf("%s: %.60q of %#v: got %#v, %v, want %#v", name, payload, c.v, got, err, want)
			}
		}
	}
}

// nest puts v into n lists.
func nest(v any, n int) any {
	for range n {
		v = value.List{v}
	}
	return v
}

func TestDepthIsLimited(t *testing.T) {
	t.Parallel()
	for _, name := range []string{JSON, MessagePack, CBOR, AMQP} {
		s := named(t, name)
		payload, err := encode(t, s, nest(int64(1), maxDepth))
		if err != nil {
			t.Errorf("%s: 32 levels: %v", name, err)
			continue
		}
		if got, err := s.Decode(t.Context(), "", payload); err != nil || !value.Equal(got, nest(int64(1), maxDepth)) {
			t.Errorf("%s: 32 levels: got %v, %v", name, got, err)
		}
		for _, v := range []any{nest(int64(1), maxDepth+1), value.Map{{Key: "k", Value: nest(nil, maxDepth)}}, nest(value.Described{Descriptor: uint64(1000), Value: value.List{}}, maxDepth)} {
			if _, err := encode(t, s, v); err == nil {
				t.Errorf("%s: deeper than 32 levels was written", name)
			}
		}
	}
	const tooDeep = "values are nested deeper than 32"
	for name, open := range map[string]string{JSON: "[", MessagePack: "\x91", CBOR: "\x81"} {
		for _, n := range []int{40, 1 << 20} {
			_, err := named(t, name).Decode(t.Context(), "", []byte(strings.Repeat(open, n)))
			if m, ok := errors.AsType[*malformed](err); !ok || m.text != tooDeep {
				t.Errorf("%s: %d levels: got %v, want %s", name, n, err, tooDeep)
			}
		}
	}
}

func TestHostilePayloadsAreRefused(t *testing.T) {
	t.Parallel()
	for name, cases := range map[string]map[string]string{
		JSON: {
			"":                     codec.CutShort,
			" ":                    codec.CutShort,
			"nul":                  "a value is missing",
			"[1,]":                 "a value is missing",
			"[1 2]":                "not followed by ',' or ']'",
			"[1":                   "not followed by ',' or ']'",
			`{"a":1,}`:             "a key is missing",
			`{"a" 1}`:              "not followed by ':'",
			`{"a":1 "b"}`:          "not followed by ',' or '}'",
			`{"a":1,"a":2}`:        sameKey,
			`{a:1}`:                "a key is missing",
			"1 2":                  codec.LeftOver,
			"01":                   badNumber,
			"-":                    badNumber,
			"1.":                   badNumber,
			"1e":                   badNumber,
			"1e+":                  badNumber,
			"+1":                   "a value is missing",
			"1E99999":              inexact,
			"1e-99999999999999999": inexact,
			"12345678901234567890123456789012345678901": inexact,
			"\"\xff\"":       codec.NotUTF8,
			"\"\\n\xff\"":    codec.NotUTF8,
			"\"a\nb\"":       "control character",
			"\"\\n\n\"":      "control character",
			`"\x"`:           "unknown escape",
			`"\u12g4"`:       "unknown escape",
			`"\ud800"`:       "unpaired surrogate",
			`"\ud800\u0041"`: "unpaired surrogate",
			`"abc`:           codec.CutShort,
			`"\`:             codec.CutShort,
			`"\n`:            codec.CutShort,
			"[" + strings.Repeat("0,", maxElements) + "0]": tooMany,
			strings.Repeat(" ", maxSize) + "1":             tooLarge,
		},
		MessagePack: {
			"":                      codec.CutShort,
			"\xc1":                  "the byte 0xc1",
			"\xdb\xff\xff\xff\xff":  codec.CutShort,
			"\xc6\xff\xff\xff\xffx": codec.CutShort,
			"\xdd\xff\xff\xff\xff":  codec.CutShort,
			"\xdf\xff\xff\xff\xff":  codec.CutShort,
			"\xc9\xff\xff\xff\xff":  codec.CutShort,
			"\xa1\xff":              codec.NotUTF8,
			"\x82\x01\x01\x01\x01":  sameKey,
			"\x81\x90\x01":          deepKey,
			"\x01\x01":              codec.LeftOver,
			"\xd4\xff\x00":          "unknown length",
			"\xd7\xff\xff\xff\xff\xff\xff\xff\xff\xff":                                 "out of range",
			"\xc7\x0c\xff\x00\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff":             "out of range",
			"\xdd\x00\x20\x00\x00" + strings.Repeat("\x00", 1<<21):                     tooMany,
			"\xdf\x00\x01\x00\x00" + strings.Repeat("\xc4\x00\x00", 1<<16):             sameKey,
			"\x82\xc4\x01a\x00\xc4\x01a\x00":                                           sameKey,
			"\xdf\x00\x10\x00\x00" + strings.Repeat("\xca\x7f\xc0\x00\x00\x00", 1<<20): tooMany,
		},
		CBOR: {
			"":                                     codec.CutShort,
			"\xff":                                 codec.StrayBreak,
			"\x1c":                                 "that CBOR reserves",
			"\x1f":                                 "that CBOR reserves",
			"\x81\xff":                             "",
			"\x7b\xff\xff\xff\xff\xff\xff\xff\xff": codec.CutShort,
			"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff": codec.CutShort,
			"\x9b\x7f\xff\xff\xff\xff\xff\xff\xff": codec.CutShort,
			"\xbb\x7f\xff\xff\xff\xff\xff\xff\xff": codec.CutShort,
			"\x61\xff":                             codec.NotUTF8,
			"\x7f\x61\xc3\x61\xa9\xff":             codec.NotUTF8,
			"\x7f\x41x\xff":                        "not a string of the same type",
			"\x7f\x7f\xff\xff":                     "not a string of the same type",
			"\x7f\x61x":                            codec.CutShort,
			"\xa2\x01\x01\x01\x01":                 sameKey,
			"\xa1\x80\x01":                         deepKey,
			"\xbf\x01\xff":                         "ends after a key",
			"\xc1\xff":                             codec.StrayBreak,
			"\xf8\xff":                             "simple value is unknown",
			"\xe0":                                 "simple value is unknown",
			"\xc0\x61x":                            "time is malformed",
			"\xc1\xfb\x7f\xf0\x00\x00\x00\x00\x00\x00": "time is malformed",
			"\xc1\x1b\x7f\xff\xff\xff\xff\xff\xff\xff": "time is malformed",
			"\xc2\x51" + strings.Repeat("\xff", 17):    inexact,
			"\xc2\x50" + strings.Repeat("\xff", 16):    inexact,
			"\xc2\x01":                                 inexact,
			"\xc4\x01":                                 badNumber,
			"\xc4\x82\x61x\x01":                        badNumber,
			"\xc4\x82\x01\x61x":                        badNumber,
			"\xc4\x82\x1a\x7f\xff\xff\xff\x01":         inexact,
			"\xd8\x25\x41x":                            "16 bytes",
			"\x01\x01":                                 codec.LeftOver,
		},
		Text: {"\xff": codec.NotUTF8},
		AMQP: {"": "", "\x40\x40": codec.LeftOver, "\xa1\x01\xff": ""},
		CloudEvents: {
			"[]": "not a map",
			`{"specversion":"1.0","id":"1","source":"/s"}`:                                      "not a map with specversion",
			`{"specversion":"1.0","id":"","source":"/s","type":"t"}`:                            "not a map with specversion",
			`{"specversion":"2.0","id":"1","source":"/s","type":"t"}`:                           "must be 1.0",
			`{"specversion":"1.0","id":"1","source":"/s","type":"t","Big":1}`:                   "not a valid name of an attribute",
			`{"specversion":"1.0","id":"1","source":"/s","type":"t","ext":{}}`:                  "is not a string, a boolean",
			`{"specversion":"1.0","id":"1","source":"/s","type":"t","ext":2147483648}`:          "is not a string, a boolean",
			`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"data_base64":""}`: "data and data_base64",
			`{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"?"}`:         "not base64",
		},
	} {
		for payload, want := range cases {
			v, err := named(t, name).Decode(t.Context(), "", []byte(payload))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %.40q: got %v, %v, want %q", name, payload, v, err, want)
			}
		}
	}
}

func TestJSONNumbersAreExact(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]any{
		"-0":                               int64(0),
		"-0.0":                             math.Copysign(0, -1),
		"1e2":                              100.0,
		"0.1":                              0.1,
		"0.30000000000000004":              0.30000000000000004,
		"3.141592653589793238462643383279": decimal(t, "3.141592653589793238462643383279"),
		"0.1000000000000000055511151231257827021181583404541015625": 0.1,
		"9007199254740993.0":             decimal(t, "9007199254740993.0"),
		"5e-324":                         5e-324,
		"6e-324":                         decimal(t, "6e-324"),
		"1e400":                          decimal(t, "1e400"),
		"1e-400":                         decimal(t, "1e-400"),
		"0e99999999999999999999":         0.0,
		"123456789012345678901234567890": decimal(t, "123456789012345678901234567890"),
		"1" + strings.Repeat("0", 40):    1e40,
	} {
		got, err := named(t, JSON).Decode(t.Context(), "", []byte(in))
		if err != nil || !value.Equal(got, want) {
			t.Errorf("%s: got %#v, %v, want %#v", in, got, err, want)
		}
	}
}

func TestTextRefusesOtherCharsets(t *testing.T) {
	t.Parallel()
	s := named(t, Text)
	for contentType, want := range map[string]string{
		"":                               "",
		"text/plain":                     "",
		"text/plain; charset=UTF-8":      "",
		"text/plain; charset=us-ascii":   "",
		"text/plain; charset=iso-8859-1": `the charset "iso-8859-1" is not supported`,
		"text/plain; charset=utf-16":     `the charset "utf-16" is not supported`,
		"text/plain; charset=\"unclosed": "is malformed",
	} {
		_, err := s.Decode(t.Context(), contentType, []byte("x"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", contentType, err, want)
		}
		if _, _, err := s.Encode(t.Context(), contentType, "x"); (err == nil) != (want == "") {
			t.Errorf("encode %q: got %v, want %q", contentType, err, want)
		}
	}
}

func TestCloudEventsCarryAttributesAndData(t *testing.T) {
	t.Parallel()
	s := named(t, CloudEvents)
	for in, data := range map[string]any{
		`{"specversion":"1.0","id":"1","source":"/s","type":"t","time":"2026-01-31T12:00:00Z","n":5,"ok":true,"data":{"a":[1]}}`: value.Map{{Key: "a", Value: value.List{int64(1)}}},
		`{"specversion":"1.0","id":"1","source":"/s","type":"t","time":"2026-01-31T12:00:00.123456Z","data_base64":"aGk="}`:      []byte("hi"),
		`{"specversion":"1.0","id":"1","source":"/s","type":"t"}`:                                                                nil,
	} {
		v, err := s.Decode(t.Context(), typeCloudEvents, []byte(in))
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		if got, _ := v.(value.Map).Get("data"); !value.Equal(got, data) {
			t.Errorf("%s: got data %#v, want %#v", in, got, data)
		}
		payload, err := encode(t, s, v)
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		again, err := s.Decode(t.Context(), typeCloudEvents, payload)
		if err != nil || !value.Equal(again, v) {
			t.Errorf("%s: got %s, which is %v, %v", in, payload, again, err)
		}
	}
	if _, err := encode(t, s, "x"); err == nil {
		t.Error("a text was written as an event")
	}
	if _, err := encode(t, s, value.Map{{Key: "id", Value: "1"}}); err == nil {
		t.Error("a map that is no event was written as one")
	}
}

func TestEveryNameHasASerializer(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		if len(named(t, name).ContentTypes()) == 0 {
			t.Errorf("%s serves no content type", name)
		}
	}
	if Named("") != nil {
		t.Error("there is a serializer without a name")
	}
}
