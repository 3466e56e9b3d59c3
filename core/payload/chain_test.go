package payload

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

func TestDeclaredTypeIsTriedFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		contentType, body string
		want              string // the text, or the error
		x, y              []string
	}{
		"declared":               {"app/y; v=1", "y:1", "1", nil, []string{"app/y; v=1"}},
		"exact before wildcard":  {"app/special+x", "y:1", "1", nil, []string{"app/special+x"}},
		"wildcard":               {"App/A+X", "x:1", "1", []string{"App/A+X"}, nil},
		"fallback":               {"app/y", "x:1", "1", []string{""}, []string{"app/y"}},
		"undeclared":             {"", "y:1", "1", []string{""}, []string{""}},
		"unknown":                {"image/png", "y:1", "1", []string{""}, []string{""}},
		"malformed content type": {"y", "y:1", "1", []string{""}, []string{""}},
		"nobody": {
			"app/y", "z:1", `The payload, declared as "app/y", could not be deserialized. Tried: Y for app/y: no "y:"; X: no "x:".`,
			[]string{""},
			[]string{"app/y"},
		},
		"nobody, undeclared": {
			"", "z:1", `The payload, which declares no content type, could not be deserialized. Tried: X: no "x:"; Y: no "y:".`,
			[]string{""},
			[]string{""},
		},
	} {
		x, y := formats()
		v, err := chainOf(x, y).Decode(t.Context(), message(c.contentType, c.body))
		got, _ := v.(string)
		if err != nil {
			got = err.Error()
		}
		if got != c.want || !slices.Equal(x.seen, c.x) || !slices.Equal(y.seen, c.y) {
			t.Errorf("%s: got %s, X asked for %q, Y for %q, want %s, %q, %q", name, got, x.seen, y.seen, c.want, c.x, c.y)
		}
	}
	if _, err := NewChain(nil).Decode(t.Context(), message("app/x", "x:")); err == nil || err.Error() != `The payload, declared as "app/x", could not be deserialized. No serializer supports this type.` {
		t.Errorf("no serializer: got %v", err)
	}
}

func TestBusySerializerEndsTheSearch(t *testing.T) {
	t.Parallel()
	x, y := formats()
	y.fails = []error{fmt.Errorf("call: %w", core.Busy)}
	_, err := chainOf(x, y).Decode(t.Context(), message("app/y", "x:1"))
	if !errors.Is(err, core.Busy) || x.seen != nil {
		t.Errorf("got %v, X asked for %q, want busy and nobody asked", err, x.seen)
	}
}

func TestSerializerThatIsNotThereYetIsAskedBeforePatterns(t *testing.T) {
	t.Parallel()
	x, y := formats()
	y.types, y.fails = nil, []error{core.Busy, core.Busy}
	c := chainOf(x, y)
	if _, err := c.Decode(t.Context(), message("app/a+x", "x:1")); !errors.Is(err, core.Busy) {
		t.Errorf("a type that a pattern matches: got %v, want busy", err)
	}
	if v, err := c.Decode(t.Context(), message("app/x", "x:1")); v != "1" {
		t.Errorf("a type that somebody names: got %v, %v", v, err)
	}
	if _, err := c.Decode(t.Context(), message("app/z", "z:1")); !errors.Is(err, core.Busy) {
		t.Errorf("a type that nobody else serves: got %v, want busy", err)
	}
}

func TestAMQPValuesNeedNoSerializer(t *testing.T) {
	t.Parallel()
	c := chainOf(formats())
	for name, tc := range map[string]struct {
		m    *core.Message
		want any // nil: an error
	}{
		"value":               {amqpValue(t, "", int64(5)), int64(5)},
		"text without a type": {amqpValue(t, "", "x:1"), "x:1"},
		"text of a type":      {amqpValue(t, "app/x", "x:1"), "1"},
		"binary of a type":    {amqpValue(t, "app/x", []byte("x:1")), "1"},
		"broken":              {&core.Message{Body: core.Body{Kind: core.BodyValue, Bytes: []byte{0}}}, nil},
		"compressed":          {&core.Message{ContentType: "app/x", ContentEncoding: "gzip", Body: core.Body{Bytes: []byte("x:1")}}, nil},
		"identity":            {&core.Message{ContentType: "app/x", ContentEncoding: "Identity", Body: core.Body{Bytes: []byte("x:1")}}, "1"},
	} {
		v, err := c.Body(tc.m)
		if (err != nil) != (tc.want == nil) || !value.Equal(v, tc.want) {
			t.Errorf("%s: got %v, %v, want %v", name, v, err, tc.want)
		}
	}
}

func TestTranscodeChoosesThePreferredType(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		contentType, body, accept string
		wantType, want            string
	}{
		"any":                     {"app/x", "x:1", "", "app/x", "x:1"},
		"accepted":                {"app/x", "x:1", "app/x", "app/x", "x:1"},
		"accepted with others":    {"app/x", "x:1", "app/y, */*", "app/x", "x:1"},
		"other":                   {"app/x; a=b", "x:1", "app/y; p=1", "app/y; p=1", "y:1"},
		"other liked better":      {"app/x", "x:1", "app/y, */*;q=0.1", "app/y", "y:1"},
		"other liked less":        {"app/x", "x:1", "app/y;q=0.1, */*", "app/x", "x:1"},
		"pattern":                 {"app/x", "x:1", "app/*, app/x;q=0", "app/y", "y:1"},
		"pattern, but not that":   {"other/x", "x:1", "app/*, app/x;q=0", "app/y", "y:1"},
		"wildcard of a member":    {"app/y", "y:1", "app/custom+x", "app/custom+x", "x:1"},
		"undeclared":              {"", "y:1", "app/x", "app/x", "x:1"},
		"undeclared, any":         {"", "y:1", "*/*", "", "y:1"},
		"nobody writes it":        {"app/x", "x:1", "image/png", "app/x", "x:1"},
		"the second is written":   {"app/x", "x:1", "image/png, app/y;q=0.1", "app/y", "y:1"},
		"cannot be read":          {"app/x", "z:1", "app/y", "app/x", "z:1"},
		"compressed is untouched": {"app/x", "gzip", "app/y", "app/x", "gzip"},
	} {
		m := message(c.contentType, c.body)
		if c.body == "gzip" {
			m.ContentEncoding = c.body
		}
		got, _ := chainOf(formats()).Transcode(t.Context(), m, ParseAccept(c.accept), false)
		if got.ContentType != c.wantType || string(got.Body.Bytes) != c.want {
			t.Errorf("%s: got %s %q, want %s %q", name, got.ContentType, got.Body.Bytes, c.wantType, c.want)
		}
		if (got == m) != (c.body == c.want) {
			t.Errorf("%s: the message is the same: %v", name, got == m)
		}
	}
}

func TestTranscodeOfAMQPValues(t *testing.T) {
	t.Parallel()
	c := chainOf(formats())
	for name, tc := range map[string]struct {
		m      *core.Message
		accept string
		want   string // "": as it is
	}{
		"any":                    {amqpValue(t, "", "1"), "*/*", ""},
		"rendered":               {amqpValue(t, "", "1"), "app/y", "y:1"},
		"of a type":              {amqpValue(t, "app/x", "x:1"), "app/y", "y:1"},
		"of an accepted type":    {amqpValue(t, "app/x", "x:1"), "app/x", ""},
		"nobody writes a number": {amqpValue(t, "", int64(1)), "app/x", ""},
	} {
		got, err := c.Transcode(t.Context(), tc.m, ParseAccept(tc.accept), false)
		if err != nil || tc.want == "" && got != tc.m || tc.want != "" && (got.Body.Kind != core.BodyData || string(got.Body.Bytes) != tc.want) {
			t.Errorf("%s: got %+v, %v, want %q", name, got.Body, err, tc.want)
		}
	}
}

// Where there is no body there is nothing to read: it is null, and no content type fits it better than another.
func TestAMessageWithoutABodyIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	c := chainOf(formats())
	m := &core.Message{ContentType: "app/x", Body: core.Body{Kind: core.BodyNone}}
	if v, err := c.Decode(t.Context(), m); v != nil || err != nil {
		t.Errorf("decoded: got %v, %v, want null", v, err)
	}
	if got, err := c.Transcode(t.Context(), m, ParseAccept("app/y"), false); got != m || err != nil {
		t.Errorf("transcoded: got %+v, %v", got, err)
	}
	if got, err := c.Transcode(t.Context(), m, ParseAccept(""), true); got != m || err != nil {
		t.Errorf("checked: got %+v, %v", got, err)
	}
}
