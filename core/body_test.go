package core

import (
	"bytes"
	"testing"

	"github.com/crosstown-mq/crosstown/core/value"
)

func section(t *testing.T, descriptor uint64, v any) []byte {
	t.Helper()
	b, err := value.Append(nil, value.Described{Descriptor: descriptor, Value: v})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBodiesArePayloadsOrValues(t *testing.T) {
	t.Parallel()
	const data, sequence, amqpValue = 0x75, 0x76, 0x77
	run := func(sections ...[]byte) []byte { return bytes.Join(sections, nil) }
	for name, c := range map[string]struct {
		body    Body
		payload []byte // nil: it has none
		value   any    // of BodyValue and BodySequence
		broken  bool
	}{
		"data":          {Body{BodyData, []byte("\x00raw")}, []byte("\x00raw"), nil, false},
		"sections":      {Body{BodyDataSections, run(section(t, data, []byte("a")), section(t, data, []byte("b")))}, []byte("ab"), nil, false},
		"no sections":   {Body{BodyDataSections, nil}, []byte{}, nil, false},
		"not binary":    {Body{BodyDataSections, section(t, data, "a")}, nil, nil, true},
		"none":          {Body{BodyNone, nil}, []byte{}, nil, false},
		"value":         {Body{BodyValue, section(t, amqpValue, int64(5))}, nil, int64(5), false},
		"null":          {Body{BodyValue, section(t, amqpValue, nil)}, nil, nil, false},
		"described":     {Body{BodyValue, section(t, amqpValue, value.Described{Descriptor: uint64(9), Value: true})}, nil, value.Described{Descriptor: uint64(9), Value: true}, false},
		"two values":    {Body{BodyValue, run(section(t, amqpValue, nil), section(t, amqpValue, nil))}, nil, nil, true},
		"no value":      {Body{BodyValue, nil}, nil, nil, true},
		"sequence":      {Body{BodySequence, section(t, sequence, value.List{true})}, nil, value.List{true}, false},
		"sequences":     {Body{BodySequence, run(section(t, sequence, value.List{}), section(t, sequence, value.List{true}))}, nil, value.List{value.List{}, value.List{true}}, false},
		"many sections": {Body{BodySequence, bytes.Repeat(section(t, sequence, value.List{}), maxSections/4+1)}, nil, nil, true},
		"cut":           {Body{BodySequence, []byte{0x00, 0x53}}, nil, nil, true},
	} {
		payload, ok := c.body.Payload()
		if ok != (c.payload != nil) || !bytes.Equal(payload, c.payload) {
			t.Errorf("%s: got payload %q, %v, want %q", name, payload, ok, c.payload)
		}
		if c.body.Kind == BodyData || c.body.Kind == BodyDataSections || c.body.Kind == BodyNone {
			continue
		}
		if v, err := c.body.Value(); (err != nil) != c.broken || !value.Equal(v, c.value) {
			t.Errorf("%s: got %v, %v, want %v", name, v, err, c.value)
		}
	}
}
