package typed_test

import (
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/plugins/internal/typed"
	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

func TestEveryTypeComesBackAsItWas(t *testing.T) {
	t.Parallel()
	for _, v := range []any{
		nil, true, false, uint8(math.MaxUint8), uint16(math.MaxUint16), uint32(math.MaxUint32), uint64(math.MaxUint64),
		int8(math.MinInt8), int16(math.MinInt16), int32(math.MinInt32), int64(math.MinInt64),
		float32(1.5), math.Inf(-1), math.NaN(),
		value.Decimal32{1, 2, 3, 4},
		value.Decimal64{7: 8},
		value.Decimal128{15: 9},
		value.Char('ß'), value.Char(0xd800), value.Timestamp(-1),
		value.UUID{1, 15: 2},
		[]byte{},
		[]byte{0, 255},
		"", "text", value.Symbol("symbol"),
		value.List{},
		value.List{nil, "a", value.List{int32(1)}},
		value.Map{{Key: "k", Value: uint8(1)}, {Key: value.Symbol("s"), Value: value.Map{}}},
		value.ArrayOf([]int32{1, 2}), value.ArrayOf([]value.Symbol{}), value.ArrayOf([]bool{}), value.ArrayOf([]value.UUID{{3}}),
		value.Described{Descriptor: uint64(0x75), Value: []byte("x")},
	} {
		made, err := typed.From(v)
		if err != nil {
			t.Errorf("%#v: %v", v, err)
			continue
		}
		wire, err := proto.Marshal(made)
		if err != nil {
			t.Errorf("%#v: %v", v, err)
			continue
		}
		var read pb.Value
		if err := proto.Unmarshal(wire, &read); err != nil {
			t.Errorf("%#v: %v", v, err)
			continue
		}
		if got, err := typed.Of(&read); err != nil || !value.Equal(got, v) {
			t.Errorf("%#v: got %#v, %v", v, got, err)
		}
	}
}

func TestInvalidValueIsRefused(t *testing.T) {
	t.Parallel()
	deep := &pb.Value{}
	for range 100 {
		deep = &pb.Value{Kind: &pb.Value_ListValue{ListValue: &pb.List{Values: []*pb.Value{deep}}}}
	}
	for name, v := range map[string]*pb.Value{
		"ubyte":      {Kind: &pb.Value_UbyteValue{UbyteValue: 256}},
		"ushort":     {Kind: &pb.Value_UshortValue{UshortValue: 1 << 16}},
		"byte":       {Kind: &pb.Value_ByteValue{ByteValue: -129}},
		"short":      {Kind: &pb.Value_ShortValue{ShortValue: 1 << 15}},
		"char":       {Kind: &pb.Value_CharValue{CharValue: 0x110000}},
		"uuid":       {Kind: &pb.Value_UuidValue{UuidValue: make([]byte, 15)}},
		"decimal32":  {Kind: &pb.Value_Decimal32Value{}},
		"decimal64":  {Kind: &pb.Value_Decimal64Value{Decimal64Value: make([]byte, 9)}},
		"decimal128": {Kind: &pb.Value_Decimal128Value{Decimal128Value: make([]byte, 17)}},
		"deep":       deep,
	} {
		if got, err := typed.Of(v); err == nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
	}
	if got, err := typed.From(struct{}{}); err == nil {
		t.Errorf("a foreign type: got %v, want an error", got)
	}
	var list any
	for range 100 {
		list = value.List{list}
	}
	if got, err := typed.From(list); err == nil {
		t.Errorf("a deep list: got %v, want an error", got)
	}
}
