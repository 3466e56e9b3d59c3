package value

import "time"

// Decimal32 is an IEEE 754-2008 decimal32 in network byte order. It is carried, never computed with.
type Decimal32 [4]byte

// Decimal64 is an IEEE 754-2008 decimal64 in network byte order. It is carried, never computed with.
type Decimal64 [8]byte

// Decimal128 is an IEEE 754-2008 decimal128 in network byte order. It is carried, never computed with.
type Decimal128 [16]byte

// Char is one Unicode code point. Surrogates pass, because a .NET char may hold half a pair.
type Char rune

// Symbol is a symbolic name. AMQP asks for ASCII; any valid UTF-8 is accepted.
type Symbol string

// Timestamp is a moment in milliseconds since the Unix epoch.
type Timestamp int64

// TimestampOf returns t in whole milliseconds, rounded down.
func TimestampOf(t time.Time) Timestamp { return Timestamp(t.UnixMilli()) }

// Time returns the moment in UTC.
func (t Timestamp) Time() time.Time { return time.UnixMilli(int64(t)).UTC() }

// List is a sequence of values of any types.
type List []any

// Map is a sequence of entries with distinct keys. Order is kept and counts in comparisons (AMQP 1.0 §1.6.23). Keys
// are of any type but list, map, array and described.
type Map []Entry

// Entry is one key and its value.
type Entry struct{ Key, Value any }

// Get returns the value of the entry whose key is the string or symbol name.
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

// Array is a sequence of values of one type. When Descriptor is not nil it applies to every element, and Values holds
// the bare values.
type Array struct {
	Elem       Kind // type of the elements; KindInvalid means that of Values[0]
	Descriptor any
	Values     []any
}

// ArrayOf returns an array of the values vs, with the element type that belongs to T even when vs is empty.
func ArrayOf[T any](vs []T) Array {
	a := Array{Elem: KindOfValue(any(*new(T))), Values: make([]any, len(vs))}
	for i, v := range vs {
		a.Values[i] = v
	}
	return a
}

// elem returns the type of the elements, KindInvalid if nothing tells it.
func (a Array) elem() Kind {
	if a.Elem == KindInvalid && len(a.Values) > 0 {
		return KindOfValue(a.Values[0])
	}
	return a.Elem
}

// Described is a value with a descriptor that says what it means.
type Described struct{ Descriptor, Value any }

// KindOfValue returns the AMQP type of the Go value v, KindInvalid if v is none of the types of this package.
func KindOfValue(v any) Kind {
	switch v.(type) {
	case nil:
		return KindNull
	case bool:
		return KindBool
	case uint8:
		return KindUint8
	case uint16:
		return KindUint16
	case uint32:
		return KindUint32
	case uint64:
		return KindUint64
	case int8:
		return KindInt8
	case int16:
		return KindInt16
	case int32:
		return KindInt32
	case int64:
		return KindInt64
	case float32:
		return KindFloat32
	case float64:
		return KindFloat64
	case Decimal32:
		return KindDecimal32
	case Decimal64:
		return KindDecimal64
	case Decimal128:
		return KindDecimal128
	case Char:
		return KindChar
	case Timestamp:
		return KindTimestamp
	case UUID:
		return KindUUID
	case []byte:
		return KindBinary
	case string:
		return KindString
	case Symbol:
		return KindSymbol
	case List:
		return KindList
	case Map:
		return KindMap
	case Array:
		return KindArray
	case Described:
		return KindDescribed
	}
	return KindInvalid
}
