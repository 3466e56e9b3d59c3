package value

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"
)

// Decimal32 is an IEEE 754-2008 decimal32 in network byte order.
type Decimal32 [4]byte

// Decimal64 is an IEEE 754-2008 decimal64 in network byte order.
type Decimal64 [8]byte

// Decimal128 is an IEEE 754-2008 decimal128 in network byte order.
type Decimal128 [16]byte

// Char is one Unicode code point. Surrogates are allowed: a .NET char may be half of a pair.
type Char rune

// Symbol is a symbolic name. AMQP requires ASCII, but this package accepts any valid UTF-8.
type Symbol string

type Timestamp int64

// TimestampOf returns t in whole milliseconds, rounded down.
func TimestampOf(t time.Time) Timestamp { return Timestamp(t.UnixMilli()) }

func (t Timestamp) Time() time.Time { return time.UnixMilli(int64(t)).UTC() }

type List []any

// Map is a sequence of entries with distinct keys. Comparisons include the order (AMQP 1.0
// §1.6.23). Keys may have any type except list, map, array and described.
type Map []Entry

type Entry struct{ Key, Value any }

func (m Map) Get(name string) (any, bool) {
	for _, e := range m {
		switch k := e.Key.(type) {
		case string:
			if k == name {
				return e.Value, true
			}
		case Symbol:
			if string(k) == name {
				return e.Value, true
			}
		}
	}
	return nil, false
}

// At returns the value of an entry, or nil if there is none.
func (m Map) At(name string) any {
	v, _ := m.Get(name)
	return v
}

// Array is a sequence of values of one type. If Descriptor is not nil, it applies to every element,
// and Values contains the values without it.
type Array struct {
	Elem       Kind // type of the elements; KindInvalid: that of Values[0]
	Descriptor any
	Values     []any
}

// ArrayOf returns an array of vs, with the element type that belongs to T even if vs is empty.
func ArrayOf[T any](vs []T) Array {
	a := Array{Elem: KindOfValue(any(*new(T))), Values: make([]any, len(vs))}
	for i, v := range vs {
		a.Values[i] = v
	}
	return a
}

// elem returns KindInvalid if the type of the elements is unknown.
func (a Array) elem() Kind {
	if a.Elem == KindInvalid && len(a.Values) > 0 {
		return KindOfValue(a.Values[0])
	}
	return a.Elem
}

type Described struct{ Descriptor, Value any }

// KindOfValue returns the AMQP type of v, or KindInvalid if v has none of this package's types.
func KindOfValue(v any) Kind { return kindsOfTypes[reflect.TypeOf(v)] }

// Zeros has the zero value of each type, by Kind.
var Zeros = [...]any{
	KindNull: nil, KindBool: false, KindUint8: uint8(0), KindUint16: uint16(0), KindUint32: uint32(0), KindUint64: uint64(0),
	KindInt8: int8(0), KindInt16: int16(0), KindInt32: int32(0), KindInt64: int64(0), KindFloat32: float32(0), KindFloat64: float64(0),
	KindDecimal32: Decimal32{}, KindDecimal64: Decimal64{}, KindDecimal128: Decimal128{},
	KindChar: Char(0), KindTimestamp: Timestamp(0), KindUUID: UUID{}, KindBinary: []byte{}, KindString: "", KindSymbol: Symbol(""),
	KindList: List{}, KindMap: Map{}, KindArray: Array{}, KindDescribed: Described{},
}

// The nil in Zeros that belongs to KindInvalid is replaced by that of KindNull.
var kindsOfTypes = func() map[reflect.Type]Kind {
	all := map[reflect.Type]Kind{}
	for k, v := range Zeros {
		all[reflect.TypeOf(v)] = Kind(k)
	}
	return all
}()

type Opt[T any] struct {
	V   T
	Set bool
}

func Some[T any](v T) Opt[T] { return Opt[T]{V: v, Set: true} }

func (o Opt[T]) Or(def T) T {
	if o.Set {
		return o.V
	}
	return def
}

// UUID is in the byte order of RFC 9562, which is also that of the AMQP type uuid.
type UUID [16]byte

// NewUUID returns a random UUID: RFC 9562 §5.4, version 4.
func NewUUID() (u UUID) {
	binary.LittleEndian.PutUint64(u[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(u[8:], rand.Uint64())
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}

// String returns 8-4-4-4-12 lower-case hexadecimal digits.
func (u UUID) String() string {
	var t [36]byte
	hex.Encode(t[0:8], u[0:4])
	hex.Encode(t[9:13], u[4:6])
	hex.Encode(t[14:18], u[6:8])
	hex.Encode(t[19:23], u[8:10])
	hex.Encode(t[24:36], u[10:16])
	t[8], t[13], t[18], t[23] = '-', '-', '-', '-'
	return string(t[:])
}

// ParseUUID parses the form that String returns, in either case of letters.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return UUID{}, fmt.Errorf("%.40q is not a UUID: it must have 8-4-4-4-12 hexadecimal digits", s)
	}
	digits := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	if _, err := hex.Decode(u[:], []byte(digits)); err != nil {
		return UUID{}, fmt.Errorf("%q is not a UUID: %w", s, err)
	}
	return u, nil
}

// Equal reports whether a and b are the same value of the same type. It compares floats bit by bit,
// so that a NaN equals itself. Maps are equal only in the same order (AMQP 1.0 §1.6.23). A value
// that Append refuses is equal to nothing, not even to itself.
func Equal(a, b any) bool {
	x, err := Append(nil, a)
	y, failed := Append(nil, b)
	return err == nil && failed == nil && bytes.Equal(x, y)
}
