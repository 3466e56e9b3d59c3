package main

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/hamba/avro/v2"

	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

// write appends a value by its schema. A missing field gets its default; an unknown one is an
// error.
func write(dst []byte, v any, s avro.Schema) ([]byte, error) {
	w := avro.NewWriter(nil, 512)
	if err := put(w, v, s, maxDepth); err != nil {
		return nil, err
	}
	return append(dst, w.Buffer()...), nil
}

func put(w *avro.Writer, v any, s avro.Schema, depth int) error {
	switch s := s.(type) {
	case *avro.RefSchema:
		return put(w, v, s.Schema(), depth)
	case *avro.PrimitiveSchema:
		return putPrimitive(w, v, s)
	case *avro.NullSchema:
		return refusedUnless(v == nil, v, s)
	case *avro.EnumSchema:
		for i, symbol := range s.Symbols() {
			if text, _ := textOf(v); text == symbol {
				w.WriteInt(int32(i))
				return nil
			}
		}
		return refused(v, s)
	case *avro.FixedSchema:
		b, err := binaryOf(v, s.Logical(), s.Size())
		if err != nil || len(b) != s.Size() {
			return refused(v, s)
		}
		_, _ = w.Write(b) // into memory
		return nil
	}
	if depth == 0 {
		return errDepth
	}
	switch s := s.(type) {
	case *avro.RecordSchema:
		return putRecord(w, v, s, depth-1)
	case *avro.ArraySchema:
		return putArray(w, v, s, depth-1)
	case *avro.MapSchema:
		return putMap(w, v, s, depth-1)
	case *avro.UnionSchema:
		return putUnion(w, v, s, depth-1)
	}
	return refused(v, s)
}

func refused(v any, s avro.Schema) error {
	return fmt.Errorf("%s is not of the type %s", shown(v), s.Type())
}

func refusedUnless(ok bool, v any, s avro.Schema) error {
	if !ok {
		return refused(v, s)
	}
	return nil
}

func putRecord(w *avro.Writer, v any, s *avro.RecordSchema, depth int) error {
	m, ok := v.(sdk.Map)
	if !ok {
		return refused(v, s)
	}
	found := 0
	for _, f := range s.Fields() {
		field, ok := m.Get(f.Name())
		switch {
		case ok:
			found++
		case f.HasDefault():
			w.WriteVal(f.Type(), f.Default())
			if w.Error != nil {
				return fmt.Errorf("%s: its default: %w", f.Name(), w.Error)
			}
			continue
		default:
			return fmt.Errorf("%s is missing", f.Name())
		}
		if err := put(w, field, f.Type(), depth); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	if found != len(m) {
		return fmt.Errorf("%s has %d fields that the schema does not have", s.Name(), len(m)-found)
	}
	return nil
}

func putArray(w *avro.Writer, v any, s *avro.ArraySchema, depth int) error {
	var elements []any
	switch v := v.(type) {
	case sdk.List:
		elements = v
	case sdk.Array:
		elements = v.Values
	default:
		return refused(v, s)
	}
	if len(elements) > 0 {
		w.WriteLong(int64(len(elements)))
	}
	for i, e := range elements {
		if err := put(w, e, s.Items(), depth); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	w.WriteLong(0)
	return nil
}

func putMap(w *avro.Writer, v any, s *avro.MapSchema, depth int) error {
	m, ok := v.(sdk.Map)
	if !ok {
		return refused(v, s)
	}
	if len(m) > 0 {
		w.WriteLong(int64(len(m)))
	}
	for _, e := range m {
		key, ok := textOf(e.Key)
		if !ok {
			return fmt.Errorf("the key %s is not text", shown(e.Key))
		}
		w.WriteString(key)
		if err := put(w, e.Value, s.Values(), depth); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	w.WriteLong(0)
	return nil
}

func putUnion(w *avro.Writer, v any, s *avro.UnionSchema, depth int) error {
	for i, t := range s.Types() {
		branch := avro.NewWriter(nil, 64)
		if put(branch, v, t, depth) == nil {
			w.WriteLong(int64(i))
			_, _ = w.Write(branch.Buffer()) // into memory
			return nil
		}
	}
	return refused(v, s)
}

func putPrimitive(w *avro.Writer, v any, s *avro.PrimitiveSchema) error {
	switch s.Type() {
	case avro.Null:
		return refusedUnless(v == nil, v, s)
	case avro.Boolean:
		b, ok := v.(bool)
		w.WriteBool(b)
		return refusedUnless(ok, v, s)
	case avro.Int, avro.Long:
		return putInteger(w, v, s)
	case avro.Float, avro.Double:
		f, ok := sdk.Float(v)
		if s.Type() == avro.Float {
			w.WriteFloat(float32(f))
		} else {
			w.WriteDouble(f)
		}
		return refusedUnless(ok, v, s)
	case avro.Bytes:
		b, err := binaryOf(v, s.Logical(), 0)
		w.WriteBytes(b)
		return err
	default: // string
		text, ok := textOf(v)
		w.WriteString(text)
		return refusedUnless(ok, v, s)
	}
}

func putInteger(w *avro.Writer, v any, s *avro.PrimitiveSchema) error {
	n, ok := sdk.Int(v)
	switch t, isInstant := v.(sdk.Timestamp); {
	case isInstant && isLogical(s.Logical(), avro.TimestampMillis):
		n, ok = int64(t), true
	case isInstant && isLogical(s.Logical(), avro.TimestampMicros):
		n, ok = time.UnixMilli(int64(t)).UnixMicro(), true
	case isLogical(s.Logical(), avro.Date):
		text, _ := textOf(v)
		if day, err := time.Parse(time.DateOnly, text); err == nil {
			n, ok = day.Unix()/86400, true
		}
	case isLogical(s.Logical(), avro.TimestampMillis), isLogical(s.Logical(), avro.TimestampMicros):
		text, _ := textOf(v)
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return putInteger(w, sdk.Timestamp(t.UnixMilli()), s)
		}
	}
	switch {
	case !ok, s.Type() == avro.Int && n != int64(int32(n)):
		return refused(v, s)
	case s.Type() == avro.Int:
		w.WriteInt(int32(n))
	default:
		w.WriteLong(n)
	}
	return nil
}

func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case sdk.Symbol:
		return string(v), true
	case sdk.UUID:
		return v.String(), true
	}
	return "", false
}

// binaryOf returns the bytes of a binary or, if the schema has one, of a decimal. Those of a
// decimal are size bytes or, if size is 0, as few as possible.
func binaryOf(v any, l avro.LogicalSchema, size int) ([]byte, error) {
	d, ok := l.(*avro.DecimalLogicalSchema)
	if !ok {
		if b, ok := v.([]byte); ok {
			return b, nil
		}
		return nil, fmt.Errorf("%s is not binary", shown(v))
	}
	number, ok := new(big.Rat).SetString(fmt.Sprint(v))
	switch v.(type) {
	case sdk.Decimal32, sdk.Decimal64, sdk.Decimal128, float32, float64:
	default:
		_, isInteger := sdk.Int(v)
		ok = ok && isInteger
	}
	if !ok {
		return nil, fmt.Errorf("%s is not a decimal", shown(v))
	}
	scaled := number.Mul(number, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.Scale())), nil)))
	if !scaled.IsInt() || len(strings.TrimPrefix(scaled.Num().String(), "-")) > d.Precision() {
		return nil, fmt.Errorf("%s does not fit into %d digits, %d of them behind the point", shown(v), d.Precision(), d.Scale())
	}
	n := scaled.Num()
	if size == 0 {
		size = n.BitLen()/8 + 1
	}
	if n.BitLen() >= size*8 {
		return nil, fmt.Errorf("%s does not fit into %d bytes", shown(v), size)
	}
	if n.Sign() < 0 { // two's complement
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(size)*8))
	}
	return n.FillBytes(make([]byte, size)), nil
}

func shown(v any) string { return fmt.Sprintf("%.60s", fmt.Sprint(v)) }
