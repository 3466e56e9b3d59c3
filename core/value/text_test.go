package value

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"testing"
)

func TestValuesHaveTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v          any
		text, json string
	}{
		{nil, "null", "null"},
		{true, "true", "true"},
		{uint8(1), "1", "1"},
		{uint16(2), "2", "2"},
		{uint32(3), "3", "3"},
		{uint64(math.MaxUint64), "18446744073709551615", "18446744073709551615"},
		{int8(-1), "-1", "-1"},
		{int16(-2), "-2", "-2"},
		{int32(-3), "-3", "-3"},
		{int64(math.MinInt64), "-9223372036854775808", "-9223372036854775808"},
		{float32(0.1), "0.1", "0.1"},
		{1e21, "1e+21", "1e+21"},
		{2.0, "2.0", "2.0"},
		{math.Inf(-1), `"-Infinity"`, `"-Infinity"`},
		{Decimal64{0x31, 0xa0, 0, 0, 0, 0, 0, 0x7b}, "12.3", "12.3"},
		{Decimal32{0x7c}, "NaN", `"NaN"`},
		{Decimal128{0x78}, "Infinity", `"Infinity"`},
		{Char('é'), "é", `"é"`},
		{Symbol("s"), "s", `"s"`},
		{"a\"\\\x01\x7f\u2028é\xff😀", "a\"\\\x01\x7f\u2028é\xff😀", "\"a\\\"\\\\\\u0001\\u007f\\u2028é\uFFFD😀\""},
		{[]byte("hi"), "aGk=", `"aGk="`},
		{UUID{}, "00000000-0000-0000-0000-000000000000", `"00000000-0000-0000-0000-000000000000"`},
		{Timestamp(1234), "1970-01-01T00:00:01.234Z", `"1970-01-01T00:00:01.234Z"`},
		{List{int32(1), List{}}, "[1,[]]", "[1,[]]"},
		{ArrayOf([]int32{1, 2}), "[1,2]", "[1,2]"},
		{Map{{"a", nil}, {int32(3), "x"}}, `{"a":null,"3":"x"}`, `{"a":null,"3":"x"}`},
		{Described{DescriptorTimeSpan, int64(864_000_000_001)}, "1.00:00:00.0000001", `"1.00:00:00.0000001"`},
		{Described{DescriptorURI, "urn:x"}, "urn:x", `"urn:x"`},
		{Described{DescriptorDateTimeOffset, int64(621_355_968_000_000_000)}, "1970-01-01T00:00:00Z", `"1970-01-01T00:00:00Z"`},
		{Described{uint64(7), true}, `{"descriptor":7,"value":true}`, `{"descriptor":7,"value":true}`},
		{struct{}{}, "null", "null"},
	} {
		if got := Text(c.v); got != c.text {
			t.Errorf("text of %#v: got %q, want %q", c.v, got, c.text)
		}
		got := string(AppendJSON(nil, c.v))
		if got != c.json {
			t.Errorf("JSON of %#v: got %s, want %s", c.v, got, c.json)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("JSON of %#v is not valid: %s", c.v, got)
		}
	}
	if got, want := string(AppendStringJSON(nil, "é😀", true)), `"\u00e9\ud83d\ude00"`; got != want {
		t.Errorf("in ASCII: got %s, want %s", got, want)
	}
}

func TestDecimalsHaveTexts(t *testing.T) {
	t.Parallel()
	for bits, want := range map[string]string{
		"32800000":                         "0",
		"328004e2":                         "1250",
		"318004e2":                         "12.50",
		"b1800005":                         "-0.05",
		"33000003":                         "3E+1",
		"6cb8967f":                         "9999999", // the large form of a coefficient
		"6cb89680":                         "0",       // 10000000: not canonical
		"78000000":                         "Infinity",
		"f8000000":                         "-Infinity",
		"7c000000":                         "NaN",
		"31a000000000007b":                 "12.3",
		"30400000000000000000000000003039": "12345",   // exponent 0
		"b03c0000000000000000000000003039": "-123.45", // exponent -2
		"3042314dc6448d9338c15b0a00000000": "1000000000000000000000000000000000E+1",
		"00000000000000000000000000000001": "1E-6176",
		"0c3e000000000000000000000000007d": "12.5", // as .NET writes 12.5, 100, -0.0000000000000000000000000001, and its largest
		"0c400000000000000000000000000064": "100",
		"8c080000000000000000000000000001": "-0.0000000000000000000000000001",
		"0c40000000000000ffffffffffffffff": "18446744073709551615",
	} {
		b, err := hex.DecodeString(bits)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		switch len(b) {
		case 4:
			got = Decimal32(b).String()
		case 8:
			got = Decimal64(b).String()
		default:
			got = Decimal128(b).String()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", bits, got, want)
		}
	}
}

func TestNumbersBecomeDecimals(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0":                                     "0",
		"-0":                                    "-0",
		"12.50":                                 "12.50",
		"-0.05":                                 "-0.05",
		"1E2":                                   "1E+2",
		"1e+2":                                  "1E+2",
		"18446744073709551616":                  "18446744073709551616",
		"9999999999999999999999999999999999":    "9999999999999999999999999999999999",
		"99999999999999999999999999999999990":   "9999999999999999999999999999999999E+1",
		"99999999999999999999999999999999999":   "",
		"1E6144":                                "1" + zeros(33) + "E+6111",
		"1E6145":                                "",
		"1E-6176":                               "1E-6176",
		"1E-6177":                               "",
		"1E99999999":                            "",
		"":                                      "",
		"-":                                     "",
		".5":                                    "",
		"1x":                                    "",
		"0x10":                                  "",
		"000000000000000000000000000000000001.": "1",
	} {
		d, ok := ParseDecimal128(in)
		if ok != (want != "") || ok && d.String() != want {
			t.Errorf("%q: got %s, %v, want %q", in, d, ok, want)
		}
	}
}

func zeros(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = '0'
	}
	return string(b)
}

func FuzzParseDecimal128(f *testing.F) {
	f.Add("12.50")
	f.Add("-1E-6176")
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := ParseDecimal128(s)
		if !ok {
			return
		}
		if again, ok := ParseDecimal128(d.String()); !ok || again != d {
			t.Fatalf("%q: %s is read as %s, %v", s, d, again, ok)
		}
	})
}
