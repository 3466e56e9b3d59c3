package builtin

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core/value"
)

const typeCBOR = "application/cbor"

// cborFormat is CBOR, RFC 8949.
type cborFormat struct{}

var cborTypes = []string{typeCBOR, "application/*+cbor"}

func (cborFormat) ContentTypes() []string { return cborTypes }

func (cborFormat) Decode(_ context.Context, _ string, payload []byte) (any, error) {
	b, err := newBinaryReader("CBOR", payload)
	if err != nil {
		return nil, err
	}
	b.depth += 2 // a decimal is a tag and a list
	r := cborReader{b}
	v, ok, err := r.value()
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, r.fail(strayBreak)
	}
	return v, r.end()
}

func (cborFormat) Encode(_ context.Context, contentType string, v any) (payload []byte, produced string, err error) {
	payload, err = appendCBOR(nil, v, maxDepth)
	return payload, contentType, err
}

// Major types, RFC 8949 §3.1.
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

// Tags, RFC 8949 §3.4, and RFC 9562's UUID.
const (
	tagTimeText    = 0
	tagTimeNumber  = 1
	tagBig         = 2
	tagBigNegative = 3
	tagDecimal     = 4
	tagUUID        = 37
	tagCBOR        = 55799
)

type cborReader struct{ *binaryReader }

// unsigned is a number as long, if it is in its range.
func unsigned(n uint64) any {
	if n > math.MaxInt64 {
		return n
	}
	return int64(n)
}

// value reads a value; it is not ok if a break comes instead.
func (r cborReader) value() (v any, ok bool, err error) {
	c, err := r.byte()
	if err != nil {
		return nil, false, err
	}
	if c == 0xff {
		return nil, false, nil
	}
	major, info := c>>5, c&0x1f
	n, err := r.argument(info, major)
	if err != nil {
		return nil, false, err
	}
	v, err = r.item(major, info, n)
	return v, true, err
}

// definite reads a value that is no break.
func (r cborReader) definite() (any, error) {
	v, ok, err := r.value()
	if err == nil && !ok {
		err = r.fail(strayBreak)
	}
	return v, err
}

// argument reads the number behind the first byte.
func (r cborReader) argument(info, major byte) (uint64, error) {
	switch {
	case info < 24:
		return uint64(info), nil
	case info < 28:
		return r.uint(1 << (info - 24))
	case info == 31 && major >= cborBytes && major <= cborMap:
		return forever, nil
	}
	return 0, r.fail("a value has a reserved length")
}

func (r cborReader) item(major, info byte, n uint64) (any, error) {
	switch major {
	case cborUnsigned:
		return unsigned(n), nil
	case cborNegative:
		return r.negative(n)
	case cborBytes, cborText:
		if n == forever && info == 31 {
			return r.chunks(major)
		}
		if major == cborText {
			return r.text(n)
		}
		return r.blob(n)
	case cborArray:
		return r.list(n, r.value)
	case cborMap:
		return r.entries(n, r.value)
	case cborTag:
		return r.tagged(n)
	}
	return r.simple(info, n)
}

// negative is -1 - n.
func (r cborReader) negative(n uint64) (any, error) {
	if n <= math.MaxInt64 {
		return -1 - int64(n), nil
	}
	return r.integer(new(big.Int).Not(new(big.Int).SetUint64(n)))
}

// integer is a big number as long, ulong or decimal128.
func (r cborReader) integer(n *big.Int) (any, error) {
	switch {
	case n.IsInt64():
		return n.Int64(), nil
	case n.IsUint64():
		return n.Uint64(), nil
	case n.BitLen() > 128:
		return nil, r.fail(inexact)
	}
	d, ok := value.ParseDecimal128(n.String())
	if !ok {
		return nil, r.fail(inexact)
	}
	return d, nil
}

// chunks reads the parts of a string of unknown length, each of which is of known length.
func (r cborReader) chunks(major byte) (any, error) {
	all := []byte{}
	for {
		c, err := r.byte()
		if err != nil {
			return nil, err
		}
		if c == 0xff {
			if major == cborText {
				return string(all), nil
			}
			return all, nil
		}
		if c>>5 != major || c&0x1f > 27 {
			return nil, r.fail("a string has a part that is none")
		}
		n, err := r.argument(c&0x1f, major)
		if err != nil {
			return nil, err
		}
		if !r.spend(1) {
			return nil, r.fail(tooMany)
		}
		start := r.at
		if major == cborText {
			_, err = r.text(n)
		} else {
			_, err = r.bytes(n)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r.b[start:r.at]...)
	}
}

func (r cborReader) simple(info byte, n uint64) (any, error) {
	switch info {
	case 20, 21:
		return info == 21, nil
	case 22, 23: // null, undefined
		return nil, nil
	case 25:
		return halfFloat(uint16(n)), nil
	case 26:
		return math.Float32frombits(uint32(n)), nil
	case 27:
		return math.Float64frombits(n), nil
	}
	return nil, r.fail("a simple value is unknown")
}

// halfFloat is a number of 16 bits: RFC 8949 appendix D.
func halfFloat(h uint16) float32 {
	exponent, mantissa := h>>10&0x1f, float64(h&0x3ff)
	var f float64
	switch exponent {
	case 0:
		f = math.Ldexp(mantissa, -24)
	case 31:
		if f = math.Inf(1); mantissa != 0 {
			f = math.NaN()
		}
	default:
		f = math.Ldexp(mantissa+1024, int(exponent)-25)
	}
	if h&0x8000 != 0 {
		f = -f
	}
	return float32(f)
}

// tagged reads a value and what its tag makes of it.
func (r cborReader) tagged(tag uint64) (any, error) {
	if !r.enter() {
		return nil, r.fail(tooDeep)
	}
	defer r.leave()
	v, err := r.definite()
	if err != nil {
		return nil, err
	}
	switch tag {
	case tagCBOR:
		return v, nil
	case tagTimeText, tagTimeNumber:
		return r.instant(v)
	case tagBig, tagBigNegative:
		b, ok := v.([]byte)
		if !ok || len(b) > 16 {
			return nil, r.fail(inexact)
		}
		n := new(big.Int).SetBytes(b)
		if tag == tagBigNegative {
			n.Not(n)
		}
		return r.integer(n)
	case tagDecimal:
		return r.decimal(v)
	case tagUUID:
		b, ok := v.([]byte)
		if !ok || len(b) != 16 {
			return nil, r.fail("a UUID is not of 16 bytes")
		}
		return value.UUID(b), nil
	}
	return value.Described{Descriptor: tag, Value: v}, nil
}

// instant reads a time; fractions of a millisecond are rounded.
func (r cborReader) instant(v any) (any, error) {
	const most = math.MaxInt64/1000 - 1
	switch v := v.(type) {
	case string:
		if t, err := time.Parse(time.RFC3339, v); err == nil {
			return value.TimestampOf(t), nil
		}
	case int64:
		if v <= most && v >= -most {
			return value.Timestamp(v * 1000), nil
		}
	case float32:
		return r.instant(float64(v))
	case float64:
		if math.Abs(v) < 1<<40 { // the year 36812: a double keeps milliseconds until then
			return value.Timestamp(math.Round(v * 1000)), nil
		}
	}
	return nil, r.fail("a time is malformed")
}

// decimal reads [exponent, mantissa].
func (r cborReader) decimal(v any) (any, error) {
	l, ok := v.(value.List)
	if !ok || len(l) != 2 {
		return nil, r.fail(badNumber)
	}
	exponent, ok := l[0].(int64)
	if !ok {
		return nil, r.fail(badNumber)
	}
	var mantissa string
	switch m := l[1].(type) {
	case int64, uint64, value.Decimal128:
		mantissa = value.Text(m)
	default:
		return nil, r.fail(badNumber)
	}
	if strings.ContainsAny(mantissa, "E.") {
		return nil, r.fail(inexact)
	}
	d, ok := value.ParseDecimal128(mantissa + "E" + strconv.FormatInt(exponent, 10))
	if !ok {
		return nil, r.fail(inexact)
	}
	return d, nil
}

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
		return appendCBORList(dst, v, depth)
	case value.Map:
		return appendCBORMap(dst, v, depth)
	}
	return appendCBORDecimal(dst, value.Text(v))
}

// appendHead appends a first byte and its number.
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
	return appendCBORInt(dst, int64(t)/1000) // 35 thousand years away
}

func appendCBORList(dst []byte, l value.List, depth int) ([]byte, error) {
	if depth == 0 {
		return nil, errDepth
	}
	dst = appendHead(dst, cborArray, uint64(len(l)))
	var err error
	for _, v := range l {
		if dst, err = appendCBOR(dst, v, depth-1); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

func appendCBORMap(dst []byte, m value.Map, depth int) ([]byte, error) {
	if depth == 0 {
		return nil, errDepth
	}
	dst = appendHead(dst, cborMap, uint64(len(m)))
	var err error
	for i := range m {
		if dst, err = appendCBOR(dst, m[i].Key, 1); err != nil { // 1: a decimal is a list
			return nil, err
		}
		if dst, err = appendCBOR(dst, m[i].Value, depth-1); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// appendCBORDecimal appends a decimal's text as a decimal fraction; what is no
// number as a float.
func appendCBORDecimal(dst []byte, s string) ([]byte, error) {
	if f, err := strconv.ParseFloat(s, 32); err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return appendCBOR(dst, float32(f), 0)
	}
	mantissa, exponent := s, int64(0)
	if m, e, ok := strings.Cut(s, "E"); ok {
		n, err := strconv.ParseInt(e, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the decimal %s: %w", s, err)
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
