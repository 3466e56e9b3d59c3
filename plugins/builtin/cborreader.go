package builtin

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/x448/float16"
)

// After an error, which err keeps, results must not be used.
type cborReader struct {
	b        []byte
	at       int
	depth    int // levels that are still allowed
	elements int // number that is still allowed
	err      error
}

func (r *cborReader) fail(text string) any {
	if r.err == nil {
		r.err = &malformed{"CBOR", r.at, text}
	}
	return nil
}

func (r *cborReader) enter() {
	if r.depth--; r.depth < 0 {
		r.fail(tooDeep)
	}
}

func (r *cborReader) leave() { r.depth++ }

func (r *cborReader) spend(n int) {
	if r.elements -= n; r.elements < 0 {
		r.fail(tooMany)
	}
}

// The bytes are not copied.
func (r *cborReader) bytes(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.b)-r.at) {
		r.fail(cutShort)
		return nil
	}
	b := r.b[r.at : r.at+int(n)]
	r.at += int(n)
	return b
}

func (r *cborReader) uint(width uint64) (n uint64) {
	for _, c := range r.bytes(width) {
		n = n<<8 | uint64(c)
	}
	return n
}

func (r *cborReader) text(n uint64) []byte {
	b := r.bytes(n)
	if !utf8.Valid(b) {
		r.fail(notUTF8)
	}
	return b
}

// value returns false for a break, which ends a value of unknown length.
func (r *cborReader) value() (v any, ok bool) {
	c := byte(r.uint(1))
	if c == 0xff {
		return nil, false
	}
	major, info := c>>5, c&0x1f
	return r.item(major, info, r.argument(info, major)), true
}

func (r *cborReader) definite() any {
	v, ok := r.value()
	if !ok {
		r.fail(strayBreak)
	}
	return v
}

const forever = 1<<64 - 1

func (r *cborReader) argument(info, major byte) uint64 {
	switch {
	case info < 24:
		return uint64(info)
	case info < 28:
		return r.uint(1 << (info - 24))
	case info == 31 && major >= cborBytes && major <= cborMap:
		return forever
	}
	r.fail("a value has a length that CBOR reserves")
	return 0
}

func (r *cborReader) item(major, info byte, n uint64) any {
	switch major {
	case cborUnsigned:
		if n > math.MaxInt64 {
			return n
		}
		return int64(n)
	case cborNegative: // the number is -1 - n
		if n <= math.MaxInt64 {
			return -1 - int64(n)
		}
		return r.integer(new(big.Int).Not(new(big.Int).SetUint64(n)))
	case cborBytes, cborText:
		if n == forever && info == 31 {
			return r.chunks(major)
		}
		if major == cborText {
			return string(r.text(n))
		}
		return append([]byte{}, r.bytes(n)...)
	case cborArray:
		return r.list(n)
	case cborMap:
		return r.entries(n)
	case cborTag:
		return r.tagged(n)
	}
	return r.simple(info, n)
}

// integer returns n as the first of long, ulong and decimal128 that can hold it.
func (r *cborReader) integer(n *big.Int) any {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.IsUint64():
		return n.Uint64()
	case n.BitLen() > 128:
		return r.fail(inexact)
	}
	return r.decimal128(n.String())
}

func (r *cborReader) decimal128(s string) any {
	d, ok := value.ParseDecimal128(s)
	if !ok {
		return r.fail(inexact)
	}
	return d
}

// A string of unknown length consists of strings of known length.
func (r *cborReader) chunks(major byte) any {
	all := []byte{}
	for r.err == nil {
		c := byte(r.uint(1))
		if c == 0xff {
			if major == cborText {
				return string(all)
			}
			return all
		}
		if r.err == nil && (c>>5 != major || c&0x1f > 27) {
			return r.fail("a string has a part that is not a string of the same type")
		}
		n := r.argument(c&0x1f, major)
		r.spend(1)
		if major == cborText {
			all = append(all, r.text(n)...)
		} else {
			all = append(all, r.bytes(n)...)
		}
	}
	return nil
}

// Each element takes at least one byte.
func (r *cborReader) room(n uint64) int {
	if n == forever {
		return 0
	}
	return int(min(n, uint64(len(r.b)-r.at), many))
}

// items calls visit with each of n items. If n is forever (unknown), a break ends them.
func (r *cborReader) items(n uint64, visit func(v any)) {
	r.enter()
	defer r.leave()
	for left := n; left > 0 && r.err == nil; left-- {
		v, ok := r.value()
		if !ok && n != forever {
			r.fail(strayBreak)
		}
		if !ok {
			return
		}
		visit(v)
	}
}

func (r *cborReader) list(n uint64) any {
	l := make(value.List, 0, r.room(n))
	r.items(n, func(v any) {
		r.spend(1)
		l = append(l, v)
	})
	return l
}

func (r *cborReader) entries(n uint64) any {
	m := make(value.Map, 0, r.room(n))
	r.items(n, func(key any) {
		if !isKey(key) {
			r.fail(deepKey)
		}
		v, ok := r.value()
		if !ok {
			r.fail("a map ends after a key")
		}
		r.spend(2)
		m = append(m, value.Entry{Key: key, Value: v})
	})
	if r.err == nil && !isDistinct(m) {
		r.fail(sameKey)
	}
	return m
}

func (r *cborReader) simple(info byte, n uint64) any {
	switch info {
	case 20, 21:
		return info == 21
	case 22, 23: // null and undefined
		return nil
	case 25:
		return float16.Frombits(uint16(n)).Float32()
	case 26:
		return math.Float32frombits(uint32(n))
	case 27:
		return math.Float64frombits(n)
	}
	return r.fail("a simple value is unknown")
}

func (r *cborReader) tagged(tag uint64) any {
	r.enter()
	defer r.leave()
	v := r.definite()
	switch tag {
	case tagCBOR:
		return v
	case tagTimeText, tagTimeNumber:
		return r.instant(v)
	case tagBig, tagBigNegative:
		b, ok := v.([]byte)
		if !ok || len(b) > 16 {
			return r.fail(inexact)
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
			return r.fail("a UUID does not have 16 bytes")
		}
		return value.UUID(b)
	}
	return value.Described{Descriptor: tag, Value: v}
}

func (r *cborReader) instant(v any) any {
	const most = math.MaxInt64/1000 - 1
	switch v := v.(type) {
	case string:
		if t, err := time.Parse(time.RFC3339, v); err == nil {
			return value.TimestampOf(t)
		}
	case int64:
		if v <= most && v >= -most {
			return value.Timestamp(v * 1000)
		}
	case float32:
		return r.instant(float64(v))
	case float64:
		if math.Abs(v) < 1<<40 { // until the year 36812, a double holds milliseconds
			return value.Timestamp(math.Round(v * 1000))
		}
	}
	return r.fail("a time is malformed")
}

func (r *cborReader) decimal(v any) any {
	l, _ := v.(value.List)
	if len(l) != 2 {
		return r.fail(badNumber)
	}
	exponent, ok := l[0].(int64)
	if !ok {
		return r.fail(badNumber)
	}
	switch l[1].(type) {
	case int64, uint64, value.Decimal128:
	default:
		return r.fail(badNumber)
	}
	mantissa := value.Text(l[1])
	if strings.ContainsAny(mantissa, "E.") {
		return r.fail(inexact)
	}
	return r.decimal128(mantissa + "E" + strconv.FormatInt(exponent, 10))
}
