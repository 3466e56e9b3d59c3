package builtin

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/core/value"
)

const typeCBOR = "application/cbor"

type cborFormat struct{}

var cborTypes = []string{typeCBOR, "application/*+cbor"}

func (cborFormat) ContentTypes() []string { return cborTypes }

func (cborFormat) Decode(_ context.Context, _ string, payload []byte) (any, error) {
	if len(payload) > maxSize {
		return nil, &malformed{"CBOR", 0, tooLarge}
	}
	r := &cborReader{b: payload, depth: maxDepth + 2, elements: maxElements} // two levels more: a decimal is a tag with a list
	v := r.definite()
	if r.at != len(payload) {
		r.fail(leftOver)
	}
	if r.err != nil {
		return nil, r.err
	}
	return v, nil
}

func (cborFormat) Encode(_ context.Context, contentType string, v any) (payload []byte, produced string, err error) {
	payload, err = appendCBOR(nil, v, maxDepth)
	return payload, contentType, err
}

const (
	cborUnsigned = iota
	cborNegative
	cborBytes
	cborText
	cborArray
	cborMap
	cborTag
	cborSimple
)

// Tags of RFC 8949 §3.4, and the tag of UUIDs.
const (
	tagTimeText    = 0
	tagTimeNumber  = 1
	tagBig         = 2
	tagBigNegative = 3
	tagDecimal     = 4
	tagUUID        = 37
	tagCBOR        = 55799
)

func appendCBOR(dst []byte, v any, depth int) ([]byte, error) {
	if d, ok := v.(value.Described); ok {
		if tag, ok := d.Descriptor.(uint64); ok {
			if depth == 0 {
				return nil, errDepth
			}
			return appendCBOR(appendHead(dst, cborTag, tag), d.Value, depth-1)
		}
	}
	v, err := simplified(v)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return append(dst, cborSimple<<5|22), nil
	case bool:
		if v {
			return append(dst, cborSimple<<5|21), nil
		}
		return append(dst, cborSimple<<5|20), nil
	case int64:
		return appendCBORInt(dst, v), nil
	case uint64:
		return appendHead(dst, cborUnsigned, v), nil
	case float32:
		return binary.BigEndian.AppendUint32(append(dst, cborSimple<<5|26), math.Float32bits(v)), nil
	case float64:
		return binary.BigEndian.AppendUint64(append(dst, cborSimple<<5|27), math.Float64bits(v)), nil
	case string:
		return appendCBORText(dst, v), nil
	case []byte:
		return append(appendHead(dst, cborBytes, uint64(len(v))), v...), nil
	case value.UUID:
		return append(appendHead(appendHead(dst, cborTag, tagUUID), cborBytes, 16), v[:]...), nil
	case value.Timestamp:
		return appendCBORTime(dst, v), nil
	case value.List:
		return appendInside(appendHead(dst, cborArray, uint64(len(v))), v, nil, depth)
	case value.Map:
		return appendInside(appendHead(dst, cborMap, uint64(len(v))), nil, v, depth)
	}
	return appendCBORDecimal(dst, value.Text(v))
}

func appendHead(dst []byte, major byte, n uint64) []byte {
	major <<= 5
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n <= math.MaxUint8:
		return append(dst, major|24, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(n))
	default:
		return binary.BigEndian.AppendUint64(append(dst, major|27), n)
	}
}

func appendCBORInt(dst []byte, n int64) []byte {
	if n < 0 {
		return appendHead(dst, cborNegative, uint64(-1-n))
	}
	return appendHead(dst, cborUnsigned, uint64(n))
}

func appendCBORText(dst []byte, s string) []byte {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return append(appendHead(dst, cborText, uint64(len(s))), s...)
}

func appendCBORTime(dst []byte, t value.Timestamp) []byte {
	dst = appendHead(dst, cborTag, tagTimeNumber)
	if t%1000 == 0 {
		return appendCBORInt(dst, int64(t)/1000)
	}
	if math.Abs(float64(t)) < 1000<<40 {
		return binary.BigEndian.AppendUint64(append(dst, cborSimple<<5|27), math.Float64bits(float64(t)/1000))
	}
	return appendCBORInt(dst, int64(t)/1000) // 35,000 years from now, times lose their milliseconds
}

func appendInside(dst []byte, l value.List, m value.Map, depth int) (_ []byte, err error) {
	if depth == 0 {
		return nil, errDepth
	}
	for _, v := range l {
		if dst, err = appendCBOR(dst, v, depth-1); err != nil {
			return nil, err
		}
	}
	for i := range m {
		if dst, err = appendCBOR(dst, m[i].Key, 1); err != nil { // depth 1, because a key may be a decimal, which is written as a list
			return nil, err
		}
		if dst, err = appendCBOR(dst, m[i].Value, depth-1); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// NaN and infinities become floats.
func appendCBORDecimal(dst []byte, s string) ([]byte, error) {
	if f, err := strconv.ParseFloat(s, 32); err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return appendCBOR(dst, float32(f), 0)
	}
	mantissa, exponent := s, int64(0)
	if m, e, ok := strings.Cut(s, "E"); ok {
		n, err := strconv.ParseInt(e, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the exponent of the decimal %s is not valid: %w", s, err)
		}
		mantissa, exponent = m, n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent -= int64(len(fraction))
	n, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return nil, fmt.Errorf("the decimal %s is malformed", s)
	}
	dst = appendHead(appendHead(dst, cborTag, tagDecimal), cborArray, 2)
	dst = appendCBORInt(dst, exponent)
	switch {
	case n.IsInt64():
		return appendCBORInt(dst, n.Int64()), nil
	case n.Sign() < 0:
		dst = appendHead(dst, cborTag, tagBigNegative)
		n.Not(n)
	default:
		dst = appendHead(dst, cborTag, tagBig)
	}
	b := n.Bytes()
	return append(appendHead(dst, cborBytes, uint64(len(b))), b...), nil
}
