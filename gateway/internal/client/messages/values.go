package messages

import (
	"encoding/json"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/typedjson"
	"github.com/crosstown-mq/crosstown/core/value"
)

// TypedValues are properties as the SDK has them. Their JSON keeps their AMQP types.
type TypedValues map[string]any

// MarshalJSON writes them, by name.
func (v TypedValues) MarshalJSON() ([]byte, error) {
	all := make(map[string]json.RawMessage, len(v))
	for k, x := range v {
		all[k] = typedjson.Value(fromSDK(x))
	}
	return json.Marshal(all)
}

// fromSDK is a property's value in the types of core/value.
func fromSDK(v any) any {
	switch v := v.(type) {
	case time.Time:
		return value.Timestamp(v.UnixMilli())
	case amqp.UUID:
		return value.UUID(v)
	case amqp.Symbol:
		return value.Symbol(v)
	}
	return v
}
