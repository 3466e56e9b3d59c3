// Package typed converts between values of the plugin contract and values of core/value, for the
// gateway and the SDK.
package typed

import (
	"fmt"
	"math"
	"strings"

	"github.com/crosstown-mq/crosstown/core/value"
	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

const maxDepth = 32

// Of converts v. It checks v, because v comes from another program.
func Of(v *pb.Value) (any, error) {
	var c converter
	out := c.of(v)
	if c.err != nil {
		return nil, c.err
	}
	return out, nil
}

func From(v any) (*pb.Value, error) {
	var c converter
	out := c.from(v)
	if c.err != nil {
		return nil, c.err
	}
	return out, nil
}

// converter keeps its first error. After that, its results are meaningless.
type converter struct {
	depth int
	err   error
}

func (c *converter) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// enter reports whether the value may have another level of nesting.
func (c *converter) enter() bool {
	if c.depth++; c.depth > maxDepth {
		c.fail("the value is nested deeper than 32 levels")
	}
	return c.err == nil
}

func (c *converter) of(v *pb.Value) any {
	switch k := v.GetKind().(type) {
	case nil:
		return nil
	case *pb.Value_BoolValue:
		return k.BoolValue
	case *pb.Value_UbyteValue:
		return uint8(c.ranged(int64(k.UbyteValue), 0, math.MaxUint8, "ubyte"))
	case *pb.Value_UshortValue:
		return uint16(c.ranged(int64(k.UshortValue), 0, math.MaxUint16, "ushort"))
	case *pb.Value_UintValue:
		return k.UintValue
	case *pb.Value_UlongValue:
		return k.UlongValue
	case *pb.Value_ByteValue:
		return int8(c.ranged(int64(k.ByteValue), math.MinInt8, math.MaxInt8, "byte"))
	case *pb.Value_ShortValue:
		return int16(c.ranged(int64(k.ShortValue), math.MinInt16, math.MaxInt16, "short"))
	case *pb.Value_IntValue:
		return k.IntValue
	case *pb.Value_LongValue:
		return k.LongValue
	case *pb.Value_FloatValue:
		return k.FloatValue
	case *pb.Value_DoubleValue:
		return k.DoubleValue
	case *pb.Value_Decimal32Value:
		return value.Decimal32(c.sized(k.Decimal32Value, 4, "decimal32"))
	case *pb.Value_Decimal64Value:
		return value.Decimal64(c.sized(k.Decimal64Value, 8, "decimal64"))
	case *pb.Value_Decimal128Value:
		return value.Decimal128(c.sized(k.Decimal128Value, 16, "decimal128"))
	case *pb.Value_CharValue:
		return value.Char(c.ranged(int64(k.CharValue), 0, 0x10ffff, "char"))
	case *pb.Value_TimestampValue:
		return value.Timestamp(k.TimestampValue)
	case *pb.Value_UuidValue:
		return value.UUID(c.sized(k.UuidValue, 16, "uuid"))
	case *pb.Value_BinaryValue:
		return append([]byte{}, k.BinaryValue...)
	case *pb.Value_StringValue:
		return k.StringValue
	case *pb.Value_SymbolValue:
		return value.Symbol(k.SymbolValue)
	}
	if !c.enter() {
		return nil
	}
	defer func() { c.depth-- }()
	switch k := v.Kind.(type) {
	case *pb.Value_ListValue:
		return value.List(c.all(k.ListValue.GetValues()))
	case *pb.Value_MapValue:
		m := make(value.Map, len(k.MapValue.GetEntries()))
		for i, e := range k.MapValue.GetEntries() {
			m[i] = value.Entry{Key: c.of(e.GetKey()), Value: c.of(e.GetValue())}
		}
		return m
	case *pb.Value_ArrayValue:
		return c.array(k.ArrayValue)
	case *pb.Value_DescribedValue:
		return value.Described{Descriptor: c.of(k.DescribedValue.GetDescriptor_()), Value: c.of(k.DescribedValue.GetValue())}
	}
	c.fail("a value has the unknown kind %T", v.Kind)
	return nil
}

func (c *converter) ranged(v, least, most int64, name string) int64 {
	if v < least || v > most {
		c.fail("%d is out of the range of the type %s", v, name)
	}
	return v
}

// sized returns b if it has n bytes, and otherwise fails.
func (c *converter) sized(b []byte, n int, name string) []byte {
	if len(b) != n {
		c.fail("a value of the type %s has %d bytes instead of %d", name, len(b), n)
		return make([]byte, n)
	}
	return b
}

func (c *converter) all(vs []*pb.Value) []any {
	l := make([]any, len(vs))
	for i, v := range vs {
		l[i] = c.of(v)
	}
	return l
}

func (c *converter) array(a *pb.Array) value.Array {
	out := value.Array{Values: c.all(a.GetValues()), Descriptor: c.of(a.GetDescriptor_())}
	sample := c.of(a.GetOf())
	if len(out.Values) > 0 {
		sample = out.Values[0]
	}
	out.Elem = value.KindOfValue(sample)
	return out
}

func (c *converter) from(v any) *pb.Value {
	switch v := v.(type) {
	case nil:
		return &pb.Value{}
	case bool:
		return &pb.Value{Kind: &pb.Value_BoolValue{BoolValue: v}}
	case uint8:
		return &pb.Value{Kind: &pb.Value_UbyteValue{UbyteValue: uint32(v)}}
	case uint16:
		return &pb.Value{Kind: &pb.Value_UshortValue{UshortValue: uint32(v)}}
	case uint32:
		return &pb.Value{Kind: &pb.Value_UintValue{UintValue: v}}
	case uint64:
		return &pb.Value{Kind: &pb.Value_UlongValue{UlongValue: v}}
	case int8:
		return &pb.Value{Kind: &pb.Value_ByteValue{ByteValue: int32(v)}}
	case int16:
		return &pb.Value{Kind: &pb.Value_ShortValue{ShortValue: int32(v)}}
	case int32:
		return &pb.Value{Kind: &pb.Value_IntValue{IntValue: v}}
	case int64:
		return &pb.Value{Kind: &pb.Value_LongValue{LongValue: v}}
	case float32:
		return &pb.Value{Kind: &pb.Value_FloatValue{FloatValue: v}}
	case float64:
		return &pb.Value{Kind: &pb.Value_DoubleValue{DoubleValue: v}}
	case value.Decimal32:
		return &pb.Value{Kind: &pb.Value_Decimal32Value{Decimal32Value: v[:]}}
	case value.Decimal64:
		return &pb.Value{Kind: &pb.Value_Decimal64Value{Decimal64Value: v[:]}}
	case value.Decimal128:
		return &pb.Value{Kind: &pb.Value_Decimal128Value{Decimal128Value: v[:]}}
	case value.Char:
		return &pb.Value{Kind: &pb.Value_CharValue{CharValue: uint32(v)}}
	case value.Timestamp:
		return &pb.Value{Kind: &pb.Value_TimestampValue{TimestampValue: int64(v)}}
	case value.UUID:
		return &pb.Value{Kind: &pb.Value_UuidValue{UuidValue: v[:]}}
	case []byte:
		return &pb.Value{Kind: &pb.Value_BinaryValue{BinaryValue: v}}
	case string:
		return &pb.Value{Kind: &pb.Value_StringValue{StringValue: Text(v)}}
	case value.Symbol:
		return &pb.Value{Kind: &pb.Value_SymbolValue{SymbolValue: Text(string(v))}}
	}
	if !c.enter() {
		return nil
	}
	defer func() { c.depth-- }()
	switch v := v.(type) {
	case value.List:
		return &pb.Value{Kind: &pb.Value_ListValue{ListValue: &pb.List{Values: c.fromAll(v)}}}
	case value.Map:
		entries := make([]*pb.Map_Entry, len(v))
		for i, e := range v {
			entries[i] = &pb.Map_Entry{Key: c.from(e.Key), Value: c.from(e.Value)}
		}
		return &pb.Value{Kind: &pb.Value_MapValue{MapValue: &pb.Map{Entries: entries}}}
	case value.Array:
		out := &pb.Array{Values: c.fromAll(v.Values)}
		if len(v.Values) == 0 {
			out.Of = zeros[v.Elem]
		}
		if v.Descriptor != nil {
			out.Descriptor_ = c.from(v.Descriptor)
		}
		return &pb.Value{Kind: &pb.Value_ArrayValue{ArrayValue: out}}
	case value.Described:
		described := &pb.Described{Descriptor_: c.from(v.Descriptor), Value: c.from(v.Value)}
		return &pb.Value{Kind: &pb.Value_DescribedValue{DescribedValue: described}}
	}
	c.fail("the Go type %T has no AMQP type", v)
	return nil
}

func (c *converter) fromAll(vs []any) []*pb.Value {
	out := make([]*pb.Value, len(vs))
	for i, v := range vs {
		out[i] = c.from(v)
	}
	return out
}

// zeros are the values that give empty arrays their type. They must not be changed.
var zeros = map[value.Kind]*pb.Value{}

func init() {
	for k, v := range value.Zeros {
		zeros[value.Kind(k)], _ = From(v) // each of them can be converted
	}
}

// Text replaces invalid UTF-8 in s: protobuf refuses to encode it, which would end the stream.
func Text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
