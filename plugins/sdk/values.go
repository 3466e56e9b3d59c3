package sdk

import "github.com/crosstown-mq/crosstown/core/value"

// The types of values that Go has no type of its own for. The others are nil,
// bool, the integers of 8 to 64 bits, float32, float64, string and []byte.
type (
	Symbol     = value.Symbol
	Char       = value.Char
	Timestamp  = value.Timestamp
	UUID       = value.UUID
	Decimal32  = value.Decimal32
	Decimal64  = value.Decimal64
	Decimal128 = value.Decimal128
	List       = value.List
	Map        = value.Map
	Entry      = value.Entry
	Array      = value.Array
	Described  = value.Described
)

// ParseDecimal128 reads a number as JSON writes it, exactly. It is not ok if s is
// none, or needs more than 34 digits.
func ParseDecimal128(s string) (d Decimal128, ok bool) { return value.ParseDecimal128(s) }

// ParseUUID reads 8-4-4-4-12 hexadecimal digits.
func ParseUUID(s string) (UUID, error) { return value.ParseUUID(s) }

// Int is the number that v, of any integer type, is; ok is false for other
// types and beyond 63 bits.
func Int(v any) (n int64, ok bool) { return value.Int(v) }

// Float is the number that v, of a floating-point or integer type, is; ok is
// false for other types, and for integers that a double may not hold exactly.
func Float(v any) (f float64, ok bool) { return value.Float(v) }
