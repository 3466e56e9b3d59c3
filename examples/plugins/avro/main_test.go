package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hamba/avro/v2"

	"github.com/crosstown-mq/crosstown/plugins/plugintest"
	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

func load(t testing.TB, dir string) *schemas {
	t.Helper()
	s, err := loadSchemas(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func decimal(t testing.TB, s string) sdk.Decimal128 {
	t.Helper()
	d, ok := sdk.ParseDecimal128(s)
	if !ok {
		t.Fatalf("%s is not a decimal", s)
	}
	return d
}

func order(t testing.TB) sdk.Map {
	t.Helper()
	return sdk.Map{
		{Key: "id", Value: sdk.UUID{0: 1, 15: 2}},
		{Key: "placed", Value: sdk.Timestamp(1_700_000_000_123)},
		{Key: "customer", Value: "Grüße GmbH"},
		{Key: "state", Value: "PAID"},
		{Key: "total", Value: decimal(t, "-125.50")},
		{Key: "lines", Value: sdk.List{
			sdk.Map{{Key: "sku", Value: "A-1"}, {Key: "quantity", Value: int32(2)}, {Key: "weight", Value: 1.5}},
			sdk.Map{{Key: "sku", Value: "B-2"}, {Key: "quantity", Value: int32(-1)}, {Key: "weight", Value: 0.0}},
		}},
		{Key: "labels", Value: sdk.Map{{Key: "gift", Value: "yes"}}},
	}
}

func TestPlugin(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs("schemas")
	if err != nil {
		t.Fatal(err)
	}
	plugintest.Run(t, ".", plugin(load(t, dir)), func(t *testing.T, c *plugintest.Client) {
		for _, contentType := range []string{"application/avro", "application/avro; schema=shop.Order"} {
			payload, err := c.Encode(t, contentType, order(t))
			if err != nil {
				t.Fatal(err)
			}
			if v, err := c.Decode(t, "", payload); err != nil || !reflect.DeepEqual(v, order(t)) {
				t.Errorf("with its fingerprint: got %v, %v", v, err)
			}
			if v, err := c.Decode(t, contentType, payload[singleObjectHeader:]); err != nil || !reflect.DeepEqual(v, order(t)) {
				t.Errorf("bare: got %v, %v", v, err)
			}
		}
		if _, err := c.Decode(t, "", []byte("no avro")); err == nil {
			t.Error("what is no Avro was read")
		}
	}, dir)
}

// TestSampleIsAnOrder reads what the README sends.
func TestSampleIsAnOrder(t *testing.T) {
	t.Parallel()
	payload, err := os.ReadFile("order.avro")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := load(t, "schemas").decode(t.Context(), "application/avro", payload); err != nil || !reflect.DeepEqual(v, order(t)) {
		t.Errorf("got %v, %v", v, err)
	}
}

// TestOtherDecodersReadOurEncoding compares with the generic codec of the library.
func TestOtherDecodersReadOurEncoding(t *testing.T) {
	t.Parallel()
	s := load(t, "schemas")
	payload, err := s.encode(t.Context(), "application/avro", order(t))
	if err != nil {
		t.Fatal(err)
	}
	var theirs map[string]any
	schema := s.byName["shop.Order"]
	if err := avro.Unmarshal(schema, payload[singleObjectHeader:], &theirs); err != nil {
		t.Fatal(err)
	}
	if theirs["state"] != "PAID" || theirs["customer"] != "Grüße GmbH" || len(theirs["lines"].([]any)) != 2 {
		t.Errorf("they read %v", theirs)
	}
	again, err := avro.Marshal(schema, theirs)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.decode(t.Context(), "avro/binary", again)
	if err != nil {
		t.Fatalf("we do not read theirs: %v", err)
	}
	ours, err := s.encode(t.Context(), "avro/binary", v)
	if err != nil || !bytes.Equal(ours, payload) {
		t.Errorf("got %x, %v, want %x", ours, err, payload)
	}
}

func TestValuesAreFittedOrRefused(t *testing.T) {
	t.Parallel()
	s := load(t, "schemas")
	with := func(key string, v any) sdk.Map {
		m := order(t)
		for i := range m {
			if m[i].Key == key {
				m[i].Value = v
			}
		}
		return m
	}
	without := func(key string) sdk.Map {
		m := order(t)
		for i := range m {
			if m[i].Key == key {
				return append(m[:i], m[i+1:]...)
			}
		}
		return m
	}
	for name, c := range map[string]struct {
		v    sdk.Map
		want string // in the error
	}{
		"as it is":            {order(t), ""},
		"text for uuid":       {with("id", "00000000-0000-0000-0000-000000000001"), ""},
		"text for a moment":   {with("placed", "2026-01-31T12:00:00Z"), ""},
		"double for decimal":  {with("total", 12.5), ""},
		"integer for decimal": {with("total", int64(12)), ""},
		"null":                {with("customer", nil), ""},
		"default null":        {without("customer"), ""},
		"default map":         {without("labels"), ""},
		"missing":             {without("state"), "state is missing"},
		"too many":            {append(order(t), sdk.Entry{Key: "x", Value: true}), "1 fields that the schema does not have"},
		"no symbol":           {with("state", "LOST"), "state: LOST is not of the type enum"},
		"too precise":         {with("total", decimal(t, "0.001")), "does not fit into 12 digits"},
		"too large":           {with("total", decimal(t, "12345678901.00")), "does not fit into 12 digits"},
		"no decimal":          {with("total", "12"), "is not a decimal"},
		"no list":             {with("lines", "x"), "lines: x is not of the type array"},
		"no union type":       {with("customer", true), "customer: true is not of the type union"},
	} {
		payload, err := s.encode(t.Context(), "application/avro", c.v)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if err != nil {
			continue
		}
		if _, err := s.decode(t.Context(), "", payload); err != nil {
			t.Errorf("%s: cannot be read: %v", name, err)
		}
	}
}

func TestSchemasAreFoundOrMissed(t *testing.T) {
	t.Parallel()
	s := load(t, "schemas")
	for contentType, want := range map[string]string{
		"application/avro; schema=shop.Other": `there is no schema "shop.Other"; there are shop.Order`,
		"application/avro; schema":            "invalid media parameter",
	} {
		if _, err := s.decode(t.Context(), contentType, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", contentType, err, want)
		}
	}
	dir := t.TempDir()
	if _, err := loadSchemas(dir); err == nil {
		t.Error("an empty directory gave schemas")
	}
	for name, text := range map[string]string{"broken": "{", "nameless": `"string"`} {
		if err := os.WriteFile(filepath.Join(dir, "x.avsc"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := loadSchemas(dir); err == nil {
			t.Errorf("%s: a schema was made of it", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	s := load(f, "schemas")
	payload, err := s.encode(f.Context(), "application/avro", order(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload[singleObjectHeader:])
	f.Fuzz(func(t *testing.T, payload []byte) {
		v, err := s.decode(t.Context(), "application/avro", payload)
		if err != nil {
			return
		}
		if _, err := s.encode(t.Context(), "application/avro", v); err != nil {
			t.Fatalf("%x is read as %v, which cannot be written: %v", payload, v, err)
		}
	})
}

// BenchmarkDecode is what reading an order costs in the plugin, and through it.
func BenchmarkDecode(b *testing.B) {
	dir, err := filepath.Abs("schemas")
	if err != nil {
		b.Fatal(err)
	}
	s := load(b, dir)
	payload, err := s.encode(b.Context(), "application/avro", order(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("itself", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.decode(b.Context(), "application/avro", payload); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("as a plugin", func(b *testing.B) {
		c := plugintest.Compiled(b, ".", dir)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Decode(b, "application/avro", payload); err != nil {
				b.Fatal(err)
			}
		}
	})
}
