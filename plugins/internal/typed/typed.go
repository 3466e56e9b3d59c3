// Package typed converts between values of the plugin contract and values of core/value. Gateway
// and SDK use it.
package typed

import (
	"fmt"
	"math"
	"strings"

	"github.com/crosstown-mq/crosstown/core/value"
	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

const maxDepth = 32

type Error string

func (e Error) Error() string { return string(e) }

// v comes from another program, so Of checks it.
func Of(v *pb.Value) (any, error) { return of(v, 0) }

func of(v *pb.Value, depth int) (any, error) {
	switch k := v.GetKind().(type) {
	case nil:
		return nil, nil
	case *pb.Value_BoolValue:
		return k.BoolValue, nil
	case *pb.Value_UbyteValue:
		return ranged[uint8](k.UbyteValue, math.MaxUint8, "ubyte")
	case *pb.Value_UshortValue:
		return ranged[uint16](k.UshortValue, math.MaxUint16, "ushort")
	case *pb.Value_UintValue:
		return k.UintValue, nil
	case *pb.Value_UlongValue:
		return k.UlongValue, nil
	case *pb.Value_ByteValue:
		return signed[int8](k.ByteValue, math.MaxInt8, "byte")
	case *pb.Value_ShortValue:
		return signed[int16](k.ShortValue, math.MaxInt16, "short")
	case *pb.Value_IntValue:
		return k.IntValue, nil
	case *pb.Value_LongValue:
		return k.LongValue, nil
	case *pb.Value_FloatValue:
		return k.FloatValue, nil
	case *pb.Value_DoubleValue:
		return k.DoubleValue, nil
	case *pb.Value_Decimal32Value:
		return sized(k.Decimal32Value, 4, "decimal32", func(b []byte) any { return value.Decimal32(b) })
	case *pb.Value_Decimal64Value:
		return sized(k.Decimal64Value, 8, "decimal64", func(b []byte) any { return value.Decimal64(b) })
	case *pb.Value_Decimal128Value:
		return sized(k.Decimal128Value, 16, "decimal128", func(b []byte) any { return value.Decimal128(b) })
	case *pb.Value_CharValue:
		c, err := ranged[uint32](k.CharValue, 0x10ffff, "char")
		if err != nil {
			return nil, err
		}
		return value.Char(c.(uint32)), nil
	case *pb.Value_TimestampValue:
		return value.Timestamp(k.TimestampValue), nil
	case *pb.Value_UuidValue:
		return sized(k.UuidValue, 16, "uuid", func(b []byte) any { return value.UUID(b) })
	case *pb.Value_BinaryValue:
		return append([]byte{}, k.BinaryValue...), nil
	case *pb.Value_StringValue:
		return k.StringValue, nil
	case *pb.Value_SymbolValue:
		return value.Symbol(k.SymbolValue), nil
	}
	if depth == maxDepth {
		return nil, Error("the value is nested deeper than 32")
	}
	switch k := v.Kind.(type) {
	case *pb.Value_ListValue:
		l, err := all(k.ListValue.GetValues(), depth+1)
		return value.List(l), err
	case *pb.Value_MapValue:
		return mapOf(k.MapValue, depth+1)
	case *pb.Value_ArrayValue:
		return arrayOf(k.ArrayValue, depth+1)
	case *pb.Value_DescribedValue:
		descriptor, err := of(k.DescribedValue.GetDescriptor_(), depth+1)
		if err != nil {
			return nil, err
		}
		described, err := of(k.DescribedValue.GetValue(), depth+1)
		return value.Described{Descriptor: descriptor, Value: described}, err
	}
	return nil, Error(fmt.Sprintf("there is no value of kind %T", v.Kind))
}

func ranged[T uint8 | uint16 | uint32](v, most uint32, name string) (any, error) {
	if v > most {
		return nil, Error(fmt.Sprintf("%d is not of the type %s", v, name))
	}
	return T(v), nil
}

func signed[T int8 | int16](v, most int32, name string) (any, error) {
	if v > most || v < -most-1 {
		return nil, Error(fmt.Sprintf("%d is not of the type %s", v, name))
	}
	return T(v), nil
}

func sized(b []byte, n int, name string, as func([]byte) any) (any, error) {
	if len(b) != n {
		return nil, Error(fmt.Sprintf("%d bytes are not of the type %s", len(b), name))
	}
	return as(b), nil
}

func all(vs []*pb.Value, depth int) ([]any, error) {
	l := make([]any, len(vs))
	for i, v := range vs {
		var err error
		if l[i], err = of(v, depth); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func mapOf(m *pb.Map, depth int) (any, error) {
	out := make(value.Map, len(m.GetEntries()))
	for i, e := range m.GetEntries() {
		k, err := of(e.GetKey(), depth)
		if err != nil {
			return nil, err
		}
		v, err := of(e.GetValue(), depth)
		if err != nil {
			return nil, err
		}
		out[i] = value.Entry{Key: k, Value: v}
	}
	return out, nil
}

func arrayOf(a *pb.Array, depth int) (any, error) {
	vs, err := all(a.GetValues(), depth)
	if err != nil {
		return nil, err
	}
	out := value.Array{Values: vs}
	if a.GetDescriptor_() != nil {
		if out.Descriptor, err = of(a.GetDescriptor_(), depth); err != nil {
			return nil, err
		}
	}
	if len(vs) > 0 {
		out.Elem = value.KindOfValue(vs[0])
		return out, nil
	}
	sample, err := of(a.GetOf(), depth)
	out.Elem = value.KindOfValue(sample)
	return out, err
}

func From(v any) (*pb.Value, error) { return from(v, 0) }

func from(v any, depth int) (*pb.Value, error) {
	switch v := v.(type) {
	case nil:
		return &pb.Value{}, nil
	case bool:
		return &pb.Value{Kind: &pb.Value_BoolValue{BoolValue: v}}, nil
	case uint8:
		return &pb.Value{Kind: &pb.Value_UbyteValue{UbyteValue: uint32(v)}}, nil
	case uint16:
		return &pb.Value{Kind: &pb.Value_UshortValue{UshortValue: uint32(v)}}, nil
	case uint32:
		return &pb.Value{Kind: &pb.Value_UintValue{UintValue: v}}, nil
	case uint64:
		return &pb.Value{Kind: &pb.Value_UlongValue{UlongValue: v}}, nil
	case int8:
		return &pb.Value{Kind: &pb.Value_ByteValue{ByteValue: int32(v)}}, nil
	case int16:
		return &pb.Value{Kind: &pb.Value_ShortValue{ShortValue: int32(v)}}, nil
	case int32:
		return &pb.Value{Kind: &pb.Value_IntValue{IntValue: v}}, nil
	case int64:
		return &pb.Value{Kind: &pb.Value_LongValue{LongValue: v}}, nil
	case float32:
		return &pb.Value{Kind: &pb.Value_FloatValue{FloatValue: v}}, nil
	case float64:
		return &pb.Value{Kind: &pb.Value_DoubleValue{DoubleValue: v}}, nil
	case value.Decimal32:
		return &pb.Value{Kind: &pb.Value_Decimal32Value{Decimal32Value: v[:]}}, nil
	case value.Decimal64:
		return &pb.Value{Kind: &pb.Value_Decimal64Value{Decimal64Value: v[:]}}, nil
	case value.Decimal128:
		return &pb.Value{Kind: &pb.Value_Decimal128Value{Decimal128Value: v[:]}}, nil
	case value.Char:
		return &pb.Value{Kind: &pb.Value_CharValue{CharValue: uint32(v)}}, nil
	case value.Timestamp:
		return &pb.Value{Kind: &pb.Value_TimestampValue{TimestampValue: int64(v)}}, nil
	case value.UUID:
		return &pb.Value{Kind: &pb.Value_UuidValue{UuidValue: v[:]}}, nil
	case []byte:
		return &pb.Value{Kind: &pb.Value_BinaryValue{BinaryValue: v}}, nil
	case string:
		return &pb.Value{Kind: &pb.Value_StringValue{StringValue: Text(v)}}, nil
	case value.Symbol:
		return &pb.Value{Kind: &pb.Value_SymbolValue{SymbolValue: Text(string(v))}}, nil
	}
	if depth == maxDepth {
		return nil, Error("the value is nested deeper than 32")
	}
	switch v := v.(type) {
	case value.List:
		vs, err := fromAll(v, depth+1)
		return &pb.Value{Kind: &pb.Value_ListValue{ListValue: &pb.List{Values: vs}}}, err
	case value.Map:
		return fromMap(v, depth+1)
	case value.Array:
		return fromArray(v, depth+1)
	case value.Described:
		descriptor, err := from(v.Descriptor, depth+1)
		if err != nil {
			return nil, err
		}
		described, err := from(v.Value, depth+1)
		return &pb.Value{Kind: &pb.Value_DescribedValue{DescribedValue: &pb.Described{Descriptor_: descriptor, Value: described}}}, err
	}
	return nil, Error(fmt.Sprintf("the Go type %T has no AMQP type", v))
}

func fromAll(vs []any, depth int) ([]*pb.Value, error) {
	out := make([]*pb.Value, len(vs))
	for i, v := range vs {
		var err error
		if out[i], err = from(v, depth); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func fromMap(m value.Map, depth int) (*pb.Value, error) {
	entries := make([]*pb.Map_Entry, len(m))
	for i, e := range m {
		k, err := from(e.Key, depth)
		if err != nil {
			return nil, err
		}
		v, err := from(e.Value, depth)
		if err != nil {
			return nil, err
		}
		entries[i] = &pb.Map_Entry{Key: k, Value: v}
	}
	return &pb.Value{Kind: &pb.Value_MapValue{MapValue: &pb.Map{Entries: entries}}}, nil
}

func fromArray(a value.Array, depth int) (*pb.Value, error) {
	vs, err := fromAll(a.Values, depth)
	if err != nil {
		return nil, err
	}
	out := &pb.Array{Values: vs}
	if len(vs) == 0 {
		out.Of = zeros[a.Elem]
	}
	if a.Descriptor != nil {
		if out.Descriptor_, err = from(a.Descriptor, depth); err != nil {
			return nil, err
		}
	}
	return &pb.Value{Kind: &pb.Value_ArrayValue{ArrayValue: out}}, nil
}

// zeros are for arrays without elements. They must not be changed.
var zeros = map[value.Kind]*pb.Value{}

func init() {
	for _, v := range []any{
		nil, false, uint8(0), uint16(0), uint32(0), uint64(0), int8(0), int16(0), int32(0), int64(0), float32(0), float64(0),
		value.Decimal32{},
		value.Decimal64{},
		value.Decimal128{},
		value.Char(0), value.Timestamp(0),
		value.UUID{},
		[]byte{},
		"", value.Symbol(""),
		value.List{},
		value.Map{},
		value.ArrayOf([]bool{}),
	} {
		zeros[value.KindOfValue(v)], _ = from(v, 0) // each of them can be converted
	}
}

// Text replaces invalid UTF-8 in s, because one invalid byte would end the stream.
func Text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
