package builtin

import (
	"fmt"

	"github.com/crosstown-mq/crosstown/core/value"
)

// simplified is a value without the types that only AMQP has: symbols and chars
// are strings, arrays lists; .NET's described values their text, others a map
// with their descriptor. Values inside are left as they are.
func simplified(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string, []byte, uint64, int64, float32, float64, value.List, value.Map,
		value.Timestamp, value.UUID, value.Decimal32, value.Decimal64, value.Decimal128:
		return v, nil
	case uint8, uint16, uint32, int8, int16, int32:
		n, _ := value.Int(v)
		return n, nil
	case value.Symbol, value.Char:
		return value.Text(v), nil
	case value.Array:
		return value.List(v.Values), nil
	case value.Described:
		if _, ok := v.Descriptor.(value.Symbol); ok {
			switch v.Descriptor {
			case value.DescriptorTimeSpan, value.DescriptorURI, value.DescriptorDateTimeOffset:
				return value.Text(v), nil
			}
		}
		return value.Map{{Key: "descriptor", Value: v.Descriptor}, {Key: "value", Value: v.Value}}, nil
	}
	return nil, fmt.Errorf("a %T is none of the types of a value", v)
}
