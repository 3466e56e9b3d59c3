package builtin

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

const (
	JSON        = "json"
	MessagePack = "msgpack"
	CBOR        = "cbor"
	AMQP        = "amqp"
	Text        = "text"
	CloudEvents = "cloudevents"
)

// format is a serializer. The content type of AMQP values is not registered with IANA.
type format struct {
	name   string
	title  string // name of the format in errors
	types  []string
	decode func(contentType string, payload []byte) (any, error)
	encode func(contentType string, v any) (payload []byte, produced string, err error)
}

var formats = [...]format{
	{JSON, "JSON", []string{typeJSON, "application/*+json", "text/json"}, decoding(codec.JSON, "JSON"), encodeJSON},
	{MessagePack, "MessagePack", []string{"application/msgpack", "application/x-msgpack", "application/vnd.msgpack", "application/*+msgpack"}, decoding(codec.MessagePack, "MessagePack"), encodeMessagePack},
	{CBOR, "CBOR", []string{"application/cbor", "application/*+cbor"}, decoding(codec.CBOR, "CBOR"), encodeCBOR},
	{AMQP, "an AMQP value", []string{"application/x-amqp-value"}, decodeAMQP, encodeAMQP},
	{Text, "text", []string{"text/plain"}, decodeText, encodeText},
	{CloudEvents, "JSON", []string{typeCloudEvents}, decodeEvent, encodeEvent},
}

func Names() (names []string) {
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// Named returns nil for an unknown name.
func Named(name string) core.Serializer {
	for i := range formats {
		if formats[i].name == name {
			return &formats[i]
		}
	}
	return nil
}

func (f *format) ContentTypes() []string { return f.types }

func (f *format) Decode(_ context.Context, contentType string, payload []byte) (any, error) {
	if len(payload) > maxSize {
		return nil, &malformed{f.title, 0, tooLarge}
	}
	return f.decode(contentType, payload)
}

func (f *format) Encode(_ context.Context, contentType string, v any) (payload []byte, produced string, err error) {
	return f.encode(contentType, v)
}
