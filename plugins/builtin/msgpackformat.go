package builtin

import (
	"context"
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/core/value"
)

const typeMessagePack = "application/msgpack"

// msgpackFormat is MessagePack.
type msgpackFormat struct{}

var msgpackTypes = []string{typeMessagePack, "application/x-msgpack", "application/vnd.msgpack", "application/*+msgpack"}

func (msgpackFormat) ContentTypes() []string { return msgpackTypes }

func (msgpackFormat) Decode(_ context.Context, _ string, payload []byte) (any, error) {
	b, err := newBinaryReader("MessagePack", payload)
	if err != nil {
		return nil, err
	}
	r := msgpackReader{b}
	v, err := r.value()
	if err != nil {
		return nil, err
	}
	return v, r.end()
}

func (msgpackFormat) Encode(_ context.Context, contentType string, v any) (payload []byte, produced string, err error) {
	payload, err = appendMessagePack(nil, v, maxDepth)
	return payload, contentType, err
}

// extensionPrefix and an extension's type, signed, are the descriptor of a
// binary that is an extension.
const extensionPrefix = "msgpack:"

// timestampExtension is the type of timestamps.
const timestampExtension = -1

type msgpackReader struct{ *binaryReader }

func (r msgpackReader) next() (any, bool, error) {
	v, err := r.value()
	return v, true, err
}

func (r msgpackReader) value() (any, error) {
	c, err := r.byte()
	if err != nil {
		return nil, err
	}
	switch {
	case c < 0x80:
		return int64(c), nil
	case c < 0x90:
		return r.entries(uint64(c&0x0f), r.next)
	case c < 0xa0:
		return r.list(uint64(c&0x0f), r.next)
	case c < 0xc0:
		return r.text(uint64(c & 0x1f))
	case c >= 0xe0:
		return int64(int8(c)), nil
	}
	switch c {
	case 0xc0:
		return nil, nil
	case 0xc2, 0xc3:
		return c == 0xc3, nil
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return r.extension(1 << (c - 0xd4))
	case 0xc1:
		return nil, r.fail("a value begins with the byte that none begins with")
	}
	return r.sized(c)
}

// sized reads a value whose first byte is followed by a number: itself, or its length.
func (r msgpackReader) sized(c byte) (any, error) {
	n, err := r.uint(msgpackWidths[c-0xc4])
	if err != nil {
		return nil, err
	}
	switch c {
	case 0xc4, 0xc5, 0xc6:
		return r.blob(n)
	case 0xc7, 0xc8, 0xc9:
		return r.extension(n)
	case 0xca:
		return math.Float32frombits(uint32(n)), nil
	case 0xcb:
		return math.Float64frombits(n), nil
	case 0xcc, 0xcd, 0xce, 0xcf:
		return unsigned(n), nil
	case 0xd0:
		return int64(int8(n)), nil
	case 0xd1:
		return int64(int16(n)), nil
	case 0xd2:
		return int64(int32(n)), nil
	case 0xd3:
		return int64(n), nil
	case 0xd9, 0xda, 0xdb:
		return r.text(n)
	case 0xdc, 0xdd:
		return r.list(n, r.next)
	default: // 0xde, 0xdf
		return r.entries(n, r.next)
	}
}

// msgpackWidths are how many bytes the number has behind a first byte from 0xc4
// on; 0xd4 to 0xd8 have none.
var msgpackWidths = [...]int{
	1, 2, 4, 1, 2, 4, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 0, 0, 0, 0, 0, 1, 2, 4, 2, 4, 2, 4,
}

// unsigned is a number as long, if it is in its range.
func unsigned(n uint64) any {
	if n > math.MaxInt64 {
		return n
	}
	return int64(n)
}

func (r msgpackReader) extension(n uint64) (any, error) {
	c, err := r.byte()
	if err != nil {
		return nil, err
	}
	data, err := r.bytes(n)
	if err != nil {
		return nil, err
	}
	if kind := int8(c); kind != timestampExtension {
		return value.Described{Descriptor: value.Symbol(extensionPrefix + strconv.Itoa(int(kind))), Value: append([]byte{}, data...)}, nil
	}
	return r.timestamp(data)
}

// timestamp reads the three forms; fractions of a millisecond are cut off.
func (r msgpackReader) timestamp(data []byte) (any, error) {
	var seconds int64
	var nanos uint64
	switch len(data) {
	case 4:
		seconds = int64(binary.BigEndian.Uint32(data))
	case 8:
		n := binary.BigEndian.Uint64(data)
		seconds, nanos = int64(n&(1<<34-1)), n>>34
	case 12:
		seconds, nanos = int64(binary.BigEndian.Uint64(data[4:])), uint64(binary.BigEndian.Uint32(data))
	default:
		return nil, r.fail("a timestamp is of no known length")
	}
	if nanos >= 1e9 || seconds > math.MaxInt64/1000-1 || seconds < math.MinInt64/1000 {
		return nil, r.fail("a timestamp is out of range")
	}
	return value.Timestamp(seconds*1000 + int64(nanos/1e6)), nil
}

func appendMessagePack(dst []byte, v any, depth int) ([]byte, error) {
	if d, ok := v.(value.Described); ok {
		if kind, data, ok := extensionOf(d); ok {
			return appendExtension(dst, kind, data), nil
		}
	}
	v, err := simplified(v)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return append(dst, 0xc0), nil
	case bool:
		if v {
			return append(dst, 0xc3), nil
		}
		return append(dst, 0xc2), nil
	case int64:
		return appendMessagePackInt(dst, v), nil
	case uint64:
		if v <= math.MaxInt64 {
			return appendMessagePackInt(dst, int64(v)), nil
		}
		return binary.BigEndian.AppendUint64(append(dst, 0xcf), v), nil
	case float32:
		return binary.BigEndian.AppendUint32(append(dst, 0xca), math.Float32bits(v)), nil
	case float64:
		return binary.BigEndian.AppendUint64(append(dst, 0xcb), math.Float64bits(v)), nil
	case []byte:
		return append(appendLength(dst, len(v), 0xc4, 0xc5, 0xc6), v...), nil
	case value.Timestamp:
		return appendMessagePackTime(dst, v), nil
	case value.List:
		return appendMessagePackList(dst, v, depth)
	case value.Map:
		return appendMessagePackMap(dst, v, depth)
	default:
		return appendMessagePackText(dst, value.Text(v)), nil // string, uuid, decimals
	}
}

func appendMessagePackList(dst []byte, l value.List, depth int) ([]byte, error) {
	if depth == 0 {
		return nil, errDepth
	}
	if len(l) < 16 {
		dst = append(dst, 0x90|byte(len(l)))
	} else {
		dst = appendLength(dst, len(l), 0, 0xdc, 0xdd)
	}
	var err error
	for _, v := range l {
		if dst, err = appendMessagePack(dst, v, depth-1); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

func appendMessagePackMap(dst []byte, m value.Map, depth int) ([]byte, error) {
	if depth == 0 {
		return nil, errDepth
	}
	if len(m) < 16 {
		dst = append(dst, 0x80|byte(len(m)))
	} else {
		dst = appendLength(dst, len(m), 0, 0xde, 0xdf)
	}
	var err error
	for i := range m {
		if dst, err = appendMessagePack(dst, m[i].Key, 0); err != nil {
			return nil, err
		}
		if dst, err = appendMessagePack(dst, m[i].Value, depth-1); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

func appendMessagePackText(dst []byte, s string) []byte {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) < 32 {
		dst = append(dst, 0xa0|byte(len(s)))
	} else {
		dst = appendLength(dst, len(s), 0xd9, 0xda, 0xdb)
	}
	return append(dst, s...)
}

// appendLength appends a length with the first byte for its width; a zero one
// byte stands for none of that width.
func appendLength(dst []byte, n int, one, two, four byte) []byte {
	switch {
	case n <= math.MaxUint8 && one != 0:
		return append(dst, one, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, two), uint16(n))
	default:
		return binary.BigEndian.AppendUint32(append(dst, four), uint32(n))
	}
}

func appendMessagePackInt(dst []byte, n int64) []byte {
	switch {
	case n >= -32 && n <= 127:
		return append(dst, byte(n))
	case n == int64(int8(n)):
		return append(dst, 0xd0, byte(n))
	case n == int64(int16(n)):
		return binary.BigEndian.AppendUint16(append(dst, 0xd1), uint16(n))
	case n == int64(int32(n)):
		return binary.BigEndian.AppendUint32(append(dst, 0xd2), uint32(n))
	default:
		return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(n))
	}
}

// appendMessagePackTime appends the shortest form of a timestamp.
func appendMessagePackTime(dst []byte, t value.Timestamp) []byte {
	seconds, millis := int64(t)/1000, int64(t)%1000
	if millis < 0 {
		seconds, millis = seconds-1, millis+1000
	}
	var data []byte
	switch {
	case millis == 0 && seconds == int64(uint32(seconds)):
		data = binary.BigEndian.AppendUint32(nil, uint32(seconds))
	case seconds>>34 == 0:
		data = binary.BigEndian.AppendUint64(nil, uint64(millis*1e6)<<34|uint64(seconds))
	default:
		data = binary.BigEndian.AppendUint32(nil, uint32(millis*1e6))
		data = binary.BigEndian.AppendUint64(data, uint64(seconds))
	}
	return appendExtension(dst, timestampExtension, data)
}

func appendExtension(dst []byte, kind int8, data []byte) []byte {
	switch len(data) {
	case 1, 2, 4, 8, 16:
		width := byte(0)
		for n := len(data); n > 1; n >>= 1 {
			width++
		}
		dst = append(dst, 0xd4+width)
	default:
		dst = appendLength(dst, len(data), 0xc7, 0xc8, 0xc9)
	}
	return append(append(dst, byte(kind)), data...)
}

// extensionOf is the extension that a described value stands for.
func extensionOf(d value.Described) (kind int8, data []byte, ok bool) {
	descriptor, ok := d.Descriptor.(value.Symbol)
	if !ok {
		return 0, nil, false
	}
	number, ok := strings.CutPrefix(string(descriptor), extensionPrefix)
	if !ok {
		return 0, nil, false
	}
	n, err := strconv.ParseInt(number, 10, 8)
	data, ok = d.Value.([]byte)
	return int8(n), data, ok && err == nil
}
