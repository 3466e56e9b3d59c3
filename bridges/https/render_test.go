package https

import (
	"math"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

func nan() float64         { return math.NaN() }
func inf(sign int) float64 { return math.Inf(sign) }

// section encodes a body section: AMQP 1.0 §3.2.6–8.
func section(t testing.TB, descriptor uint64, v any) []byte {
	t.Helper()
	b, err := value.Append(nil, value.Described{Descriptor: descriptor, Value: v})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	dataSection     = 0x75
	sequenceSection = 0x76
	valueSection    = 0x77
)

func TestBodiesAreRenderedForHTTP(t *testing.T) {
	t.Parallel()
	body := func(kind core.BodyKind, sections ...[]byte) core.Body {
		b := core.Body{Kind: kind}
		for _, s := range sections {
			b.Bytes = append(b.Bytes, s...)
		}
		return b
	}
	for name, c := range map[string]struct {
		body            core.Body
		contentType     string
		want, wantsType string
	}{
		"data":              {core.Body{Bytes: []byte("\x00raw")}, "a/b", "\x00raw", "a/b"},
		"data untyped":      {core.Body{Bytes: []byte("raw")}, "", "raw", typeBytes},
		"type not for HTTP": {core.Body{Bytes: []byte("raw")}, "a/b\r\nx: y", "raw", typeBytes},
		"data sections": {
			body(core.BodyDataSections, section(t, dataSection, []byte("ab")), section(t, dataSection, []byte{}), section(t, dataSection, []byte("c"))),
			"", "abc", typeBytes,
		},
		"value string":       {body(core.BodyValue, section(t, valueSection, "grüße")), "", "grüße", typeText},
		"value string typed": {body(core.BodyValue, section(t, valueSection, "{}")), "application/json", "{}", "application/json"},
		"value binary":       {body(core.BodyValue, section(t, valueSection, []byte{1, 2})), "", "\x01\x02", typeBytes},
		"value number":       {body(core.BodyValue, section(t, valueSection, int64(42))), "text/plain", "42", typeJSON},
		"value null":         {body(core.BodyValue, section(t, valueSection, nil)), "", "null", typeJSON},
		"value map": {
			body(core.BodyValue, section(t, valueSection, value.Map{
				{Key: "a", Value: value.List{uint8(1), 2.0, float32(0.5), true, nil, nan()}},
				{Key: value.Symbol("s"), Value: value.Symbol("v\u2028\x01\"")},
				{Key: int32(3), Value: value.Timestamp(1234)},
				{Key: value.UUID{}, Value: []byte("hi")},
				{Key: "d", Value: value.Described{Descriptor: value.Symbol("x"), Value: value.Char('é')}},
			})),
			"", `{"a":[1,2.0,0.5,true,null,"NaN"],"s":"v\u2028\u0001\"","3":"1970-01-01T00:00:01.234Z",` +
				`"00000000-0000-0000-0000-000000000000":"aGk=","d":{"descriptor":"x","value":"é"}}`, typeJSON,
		},
		"sequence": {body(core.BodySequence, section(t, sequenceSection, value.List{int32(1), "x"})), "", `[1,"x"]`, typeJSON},
		"sequences": {
			body(core.BodySequence, section(t, sequenceSection, value.List{int32(1)}), section(t, sequenceSection, value.List{})),
			"", `[[1],[]]`, typeJSON,
		},
		"none":              {core.Body{Kind: core.BodyNone}, "", "", ""},
		"none, with a type": {core.Body{Kind: core.BodyNone}, "text/x", "", "text/x"},
		"broken":            {core.Body{Kind: core.BodyValue, Bytes: []byte{0x00, 0x53}}, "", "\x00\x53", typeBytes},
	} {
		got, contentType := renderBody(&core.Message{Body: c.body, ContentType: c.contentType})
		if string(got) != c.want || contentType != c.wantsType {
			t.Errorf("%s: got %q as %q, want %q as %q", name, got, contentType, c.want, c.wantsType)
		}
	}
}

func FuzzRenderBody(f *testing.F) {
	f.Add(uint8(core.BodyValue), section(f, valueSection, value.List{int32(1), value.Map{}}))
	f.Add(uint8(core.BodySequence), section(f, sequenceSection, value.List{"x"}))
	f.Add(uint8(core.BodyDataSections), section(f, dataSection, []byte("x")))
	f.Fuzz(func(t *testing.T, kind uint8, encoded []byte) {
		renderBody(&core.Message{Body: core.Body{Kind: core.BodyKind(kind % 5), Bytes: encoded}})
	})
}
