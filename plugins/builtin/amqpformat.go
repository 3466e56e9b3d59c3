package builtin

import (
	"context"

	"github.com/crosstown-mq/crosstown/core/value"
)

// amqpFormat is the encoding of AMQP 1.0 Part 1: one value.
type amqpFormat struct{}

// amqpTypes has a name of our own: none is registered for AMQP's values.
var amqpTypes = []string{"application/x-amqp-value"}

func (amqpFormat) ContentTypes() []string { return amqpTypes }

func (amqpFormat) Decode(_ context.Context, _ string, payload []byte) (any, error) {
	if len(payload) > maxSize {
		return nil, &malformed{"an AMQP value", 0, tooLarge}
	}
	v, rest, err := value.Decode(payload, value.Limits{Depth: maxDepth, Elements: maxElements})
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, &malformed{"an AMQP value", len(payload) - len(rest), leftOver}
	}
	return v, nil
}

func (amqpFormat) Encode(_ context.Context, contentType string, v any) (payload []byte, produced string, err error) {
	payload, err = value.Append(nil, v)
	return payload, contentType, err
}
