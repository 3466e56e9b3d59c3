package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/crosstown-mq/crosstown/plugins/plugintest"
	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

const orderType = "application/protobuf; messageType=shop.Order"

func load(t testing.TB, dir string) *types {
	t.Helper()
	types, err := loadTypes(dir)
	if err != nil {
		t.Fatal(err)
	}
	return types
}

func order() sdk.Map {
	return sdk.Map{
		{Key: "id", Value: "o-1"},
		{Key: "placed", Value: sdk.Timestamp(1_700_000_000_123)},
		{Key: "customer", Value: "Grüße GmbH"},
		{Key: "state", Value: "PAID"},
		{Key: "total_cents", Value: uint64(12550)},
		{Key: "lines", Value: sdk.List{
			sdk.Map{{Key: "sku", Value: "A-1"}, {Key: "quantity", Value: int32(2)}, {Key: "weight", Value: 1.5}},
			sdk.Map{{Key: "sku", Value: ""}, {Key: "quantity", Value: int32(-1)}, {Key: "weight", Value: 0.0}},
		}},
		{Key: "labels", Value: sdk.Map{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}},
		{Key: "seal", Value: []byte{1, 2}},
		{Key: "invoice", Value: int64(77)},
	}
}

func TestPlugin(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs("schemas")
	if err != nil {
		t.Fatal(err)
	}
	plugintest.Run(t, ".", plugin(load(t, dir)), func(t *testing.T, c *plugintest.Client) {
		payload, err := c.Encode(t, orderType, order())
		if err != nil {
			t.Fatal(err)
		}
		if v, err := c.Decode(t, orderType, payload); err != nil || !reflect.DeepEqual(v, order()) {
			t.Errorf("got %v, %v", v, err)
		}
		for contentType, want := range map[string]string{
			"":                     "names no message type",
			"application/protobuf": "names no message type",
			"application/protobuf; messageType=shop.Other":       "no message type \"shop.Other\"",
			"application/protobuf; messageType=shop.Order.State": "no message type \"shop.Order.State\"",
		} {
			if _, err := c.Decode(t, contentType, payload); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v, want %s", contentType, err, want)
			}
		}
		if _, err := c.Decode(t, orderType, []byte{0xff}); err == nil {
			t.Error("what is no message was read")
		}
	}, dir)
}

// TestSampleIsAnOrder reads what the README sends.
func TestSampleIsAnOrder(t *testing.T) {
	t.Parallel()
	payload, err := os.ReadFile("order.binpb")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := load(t, "schemas").decode(t.Context(), orderType, payload); err != nil || !reflect.DeepEqual(v, order()) {
		t.Errorf("got %v, %v", v, err)
	}
}

// TestOtherDecodersReadOurEncoding compares with the library's JSON.
func TestOtherDecodersReadOurEncoding(t *testing.T) {
	t.Parallel()
	types := load(t, "schemas")
	payload, err := types.encode(t.Context(), orderType, order())
	if err != nil {
		t.Fatal(err)
	}
	d, err := types.named(orderType)
	if err != nil {
		t.Fatal(err)
	}
	want := dynamicpb.NewMessage(d)
	if err := protojson.Unmarshal([]byte(`{"id": "o-1", "placed": "2023-11-14T22:13:20.123Z", "customer": "Grüße GmbH", "state": "PAID", "totalCents": "12550",
		"lines": [{"sku": "A-1", "quantity": 2, "weight": 1.5}, {"quantity": -1}], "labels": {"a": "1", "b": "2"}, "seal": "AQI=", "invoice": "77"}`), want); err != nil {
		t.Fatal(err)
	}
	expected, err := proto.MarshalOptions{Deterministic: true}.Marshal(want)
	if err != nil || !bytes.Equal(payload, expected) {
		t.Errorf("got %x, %v, want %x", payload, err, expected)
	}
}

func TestValuesAreFittedOrRefused(t *testing.T) {
	t.Parallel()
	types := load(t, "schemas")
	for name, c := range map[string]struct {
		v    any
		want string // in the error
	}{
		"as it is":           {order(), ""},
		"nothing":            {sdk.Map{}, ""},
		"names in JSON":      {sdk.Map{{Key: "totalCents", Value: int64(5)}}, ""},
		"null":               {sdk.Map{{Key: "customer", Value: nil}}, ""},
		"number of a symbol": {sdk.Map{{Key: "state", Value: int64(2)}}, ""},
		"text for a moment":  {sdk.Map{{Key: "placed", Value: "2026-01-31T12:00:00Z"}}, ""},
		"no map":             {"x", "x is not a map"},
		"no field":           {sdk.Map{{Key: "x", Value: true}}, "Order has no field x"},
		"no symbol":          {sdk.Map{{Key: "state", Value: "LOST"}}, "state: LOST is not of the type enum"},
		"negative":           {sdk.Map{{Key: "total_cents", Value: int64(-1)}}, "-1 is not of the type uint64"},
		"no timestamp":       {sdk.Map{{Key: "placed", Value: int64(1)}}, "1 is not a timestamp"},
		"no list":            {sdk.Map{{Key: "lines", Value: true}}, "true is not a list"},
		"in a list":          {sdk.Map{{Key: "lines", Value: sdk.List{sdk.Map{{Key: "quantity", Value: int64(1 << 31)}}}}}, "lines: [0]: quantity: 2147483648 is not of the type int32"},
		"no key":             {sdk.Map{{Key: "labels", Value: sdk.Map{{Key: int64(1), Value: "x"}}}}, "the key: 1 is not of the type string"},
		"no binary":          {sdk.Map{{Key: "seal", Value: "x"}}, "x is not of the type bytes"},
	} {
		_, err := types.encode(t.Context(), orderType, c.v)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestDescriptorSetsAreFoundOrMissed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := loadTypes(dir); err == nil {
		t.Error("an empty directory gave types")
	}
	if err := os.WriteFile(filepath.Join(dir, "x.binpb"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadTypes(dir); err == nil {
		t.Error("what is not a descriptor set gave types")
	}
}

func FuzzDecode(f *testing.F) {
	types := load(f, "schemas")
	payload, err := types.encode(f.Context(), orderType, order())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload)
	f.Fuzz(func(t *testing.T, payload []byte) {
		v, err := types.decode(t.Context(), orderType, payload)
		if err != nil {
			return
		}
		if _, err := types.encode(t.Context(), orderType, v); err != nil {
			t.Fatalf("%x is read as %v, which cannot be written: %v", payload, v, err)
		}
	})
}
