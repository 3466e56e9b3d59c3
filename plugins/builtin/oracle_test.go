package builtin

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/crosstown-mq/crosstown/core/value"
)

// order is what a shop sends: every type that all formats share.
func order(lines int) value.Map {
	list := make(value.List, lines)
	for i := range list {
		list[i] = value.Map{
			{Key: "sku", Value: "A-1000"},
			{Key: "quantity", Value: int64(i)},
			{Key: "price", Value: 12.5},
			{Key: "text", Value: "a chair with three legs and a cushion"},
		}
	}
	return value.Map{
		{Key: "id", Value: int64(9007199254740993)},
		{Key: "total", Value: 125.25},
		{Key: "paid", Value: true},
		{Key: "note", Value: nil},
		{Key: "customer", Value: "Grüße GmbH"},
		{Key: "lines", Value: list},
	}
}

// TestOtherDecodersReadOurEncoding compares with codecs that others wrote, in both directions.
func TestOtherDecodersReadOurEncoding(t *testing.T) {
	t.Parallel()
	want := order(20)
	asJSON := func(v any) string {
		t.Helper()
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	expected := asJSON(plain(want))
	cborModes, err := cbor.DecOptions{DefaultMapType: reflect.TypeFor[map[string]any]()}.DecMode()
	if err != nil {
		t.Fatal(err)
	}
	for name, codec := range map[string]struct {
		marshal   func(any) ([]byte, error)
		unmarshal func([]byte, any) error
	}{
		JSON: {json.Marshal, func(b []byte, v any) error {
			d := json.NewDecoder(bytes.NewReader(b))
			d.UseNumber()
			return d.Decode(v)
		}},
		MessagePack: {msgpack.Marshal, msgpack.Unmarshal},
		CBOR:        {cbor.Marshal, cborModes.Unmarshal},
	} {
		s := named(t, name)
		ours, err := encode(t, s, want)
		if err != nil {
			t.Fatal(err)
		}
		var theirs any
		if err := codec.unmarshal(ours, &theirs); err != nil {
			t.Errorf("%s: they refuse ours: %v", name, err)
		}
		if got := asJSON(theirs); got != expected {
			t.Errorf("%s: they read %s, want %s", name, got, expected)
		}
		payload, err := codec.marshal(plain(want))
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.Decode(t.Context(), "", payload)
		if err != nil {
			t.Errorf("%s: we refuse theirs: %v", name, err)
		}
		if got := asJSON(plain(v)); got != expected {
			t.Errorf("%s: we read %s, want %s", name, got, expected)
		}
	}
}

// plain is a value as other codecs know it.
func plain(v any) any {
	switch v := v.(type) {
	case value.List:
		l := make([]any, len(v))
		for i := range v {
			l[i] = plain(v[i])
		}
		return l
	case value.Map:
		m := make(map[string]any, len(v))
		for _, e := range v {
			m[e.Key.(string)] = plain(e.Value)
		}
		return m
	}
	return v
}
