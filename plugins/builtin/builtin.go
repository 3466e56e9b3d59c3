package builtin

import (
	"github.com/crosstown-mq/crosstown/core"
)

const (
	JSON        = "json"
	MessagePack = "msgpack"
	CBOR        = "cbor"
	AMQP        = "amqp"
	Text        = "text"
	CloudEvents = "cloudevents"
)

func Names() []string {
	return []string{JSON, MessagePack, CBOR, AMQP, Text, CloudEvents}
}

func Named(name string) core.Serializer {
	switch name {
	case JSON:
		return jsonFormat{}
	case MessagePack:
		return msgpackFormat{}
	case CBOR:
		return cborFormat{}
	case AMQP:
		return amqpFormat{}
	case Text:
		return textFormat{}
	case CloudEvents:
		return cloudEvents{}
	default:
		return nil
	}
}
