package main

import (
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hamba/avro/v2"

	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

const (
	maxDepth  = 32
	maxValues = 1 << 20
)

var (
	errDepth  = errors.New("values are nested deeper than 32")
	errValues = errors.New("there are more than 1048576 values")
	errUTF8   = errors.New("a string is not UTF-8")
)

// reader reads values by their schemas. Records and maps become maps; those of records have the
// order of the fields.
type reader struct {
	*avro.Reader
	values int // number that may still be read
}

func read(payload []byte, s avro.Schema) (any, error) {
	r := &reader{avro.NewReader(nil, 0).Reset(payload), maxValues}
	v, err := r.value(s, maxDepth)
	if err == nil {
		err = r.Error
	}
	if err != nil {
		return nil, fmt.Errorf("not Avro of its schema: %w", err)
	}
	if r.Peek(); !errors.Is(r.Error, io.EOF) {
		return nil, errors.New("not Avro of its schema: data follows the value")
	}
	return v, nil
}

func (r *reader) value(s avro.Schema, depth int) (any, error) {
	if r.values--; r.values < 0 {
		return nil, errValues
	}
	switch s := s.(type) {
	case *avro.RefSchema:
		return r.value(s.Schema(), depth)
	case *avro.PrimitiveSchema:
		return r.primitive(s)
	case *avro.NullSchema:
		return nil, nil
	case *avro.EnumSchema:
		symbol, ok := s.Symbol(int(r.ReadInt()))
		if !ok {
			return nil, fmt.Errorf("%s has no such symbol", s.Name())
		}
		return symbol, nil
	case *avro.FixedSchema:
		b := make([]byte, s.Size())
		r.Read(b)
		return bytesOf(b, s.Logical())
	}
	if depth == 0 {
		return nil, errDepth
	}
	switch s := s.(type) {
	case *avro.RecordSchema:
		return r.record(s, depth-1)
	case *avro.ArraySchema:
		l := sdk.List{}
		err := r.blocks(func() error {
			v, err := r.value(s.Items(), depth-1)
			l = append(l, v)
			return err
		})
		return l, err
	case *avro.MapSchema:
		m := sdk.Map{}
		err := r.blocks(func() error {
			k, err := r.text()
			if err != nil {
				return err
			}
			v, err := r.value(s.Values(), depth-1)
			m = append(m, sdk.Entry{Key: k, Value: v})
			return err
		})
		return m, err
	case *avro.UnionSchema:
		types, i := s.Types(), r.ReadLong()
		if i < 0 || i >= int64(len(types)) {
			return nil, fmt.Errorf("a union has no type %d", i)
		}
		return r.value(types[i], depth-1)
	}
	return nil, fmt.Errorf("the type %s is unknown", s.Type())
}

func (r *reader) record(s *avro.RecordSchema, depth int) (any, error) {
	m := make(sdk.Map, 0, len(s.Fields()))
	for _, f := range s.Fields() {
		v, err := r.value(f.Type(), depth)
		if err == nil {
			err = r.Error
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		m = append(m, sdk.Entry{Key: f.Name(), Value: v})
	}
	return m, nil
}

func (r *reader) blocks(element func() error) error {
	for {
		n, _ := r.ReadBlockHeader()
		if n == 0 || r.Error != nil {
			return r.Error
		}
		for ; n > 0; n-- {
			if err := element(); err != nil {
				return err
			}
			if r.Error != nil {
				return r.Error
			}
		}
	}
}

func (r *reader) primitive(s *avro.PrimitiveSchema) (any, error) {
	switch s.Type() {
	case avro.Boolean:
		return r.ReadBool(), nil
	case avro.Int:
		n := r.ReadInt()
		if isLogical(s.Logical(), avro.Date) {
			return time.Unix(int64(n)*86400, 0).UTC().Format(time.DateOnly), nil
		}
		return n, nil
	case avro.Long:
		return instantOf(r.ReadLong(), s.Logical()), nil
	case avro.Float:
		return r.ReadFloat(), nil
	case avro.Double:
		return r.ReadDouble(), nil
	case avro.Bytes:
		return bytesOf(r.ReadBytes(), s.Logical())
	case avro.String:
		text, err := r.text()
		if isLogical(s.Logical(), avro.UUID) && err == nil {
			if u, err := sdk.ParseUUID(text); err == nil {
				return u, nil
			}
		}
		return text, err
	default:
		return nil, nil
	}
}

func (r *reader) text() (string, error) {
	text := strings.Clone(r.ReadString())
	if !utf8.ValidString(text) {
		return "", errUTF8
	}
	return text, nil
}

func isLogical(l avro.LogicalSchema, t avro.LogicalType) bool { return l != nil && l.Type() == t }

// instantOf returns n or, if l is a logical type of timestamps, the timestamp that n represents.
func instantOf(n int64, l avro.LogicalSchema) any {
	switch {
	case isLogical(l, avro.TimestampMillis):
		return sdk.Timestamp(n)
	case isLogical(l, avro.TimestampMicros):
		return sdk.Timestamp(time.UnixMicro(n).UnixMilli())
	}
	return n
}

// bytesOf returns b or, if l is a decimal's logical type, the decimal that b represents.
func bytesOf(b []byte, l avro.LogicalSchema) (any, error) {
	d, ok := l.(*avro.DecimalLogicalSchema)
	if !ok {
		return b, nil
	}
	if len(b) > 16 {
		return nil, errors.New("a decimal has more digits than can be kept")
	}
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 { // two's complement
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(b))*8))
	}
	v, ok := sdk.ParseDecimal128(fmt.Sprintf("%sE-%d", n, d.Scale()))
	if !ok {
		return nil, errors.New("a decimal has more digits than can be kept")
	}
	return v, nil
}
