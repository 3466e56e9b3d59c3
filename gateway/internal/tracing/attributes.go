package tracing

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/crosstown-mq/crosstown/core"
)

// system is the name, in OpenTelemetry's conventions, of the system whose protocol the gateway has.
const system = "servicebus"

// Names of attributes, from OpenTelemetry's conventions for messaging if these define one.
const (
	keySystem        = "messaging.system"
	keyOperation     = "messaging.operation.name"
	keyOperationType = "messaging.operation.type"
	keyDestination   = "messaging.destination.name"
	keySubscription  = "messaging.destination.subscription.name"
	keyPartition     = "messaging.destination.partition.id"
	keyMessageID     = "messaging.message.id"
	keyConversation  = "messaging.message.conversation_id"
	keyBodySize      = "messaging.message.body.size"
	keyBatch         = "messaging.batch.message_count"
	keyOutcome       = "messaging.servicebus.disposition_status"
	keyDeliveries    = "messaging.servicebus.message.delivery_count"
	keyEnqueued      = "messaging.servicebus.message.enqueued_time" // seconds since 1970
	keyProtocol      = "network.protocol.name"
	keyError         = "error.type"

	keyNamespace   = "crosstown.namespace"
	keySubQueue    = "crosstown.sub_queue"
	keySequence    = "crosstown.sequence_number"
	keyQueueTime   = "crosstown.queue_time_ms" // time since the message was enqueued
	keyDeferred    = "crosstown.deferred"      // the message was received by sequence number
	keyDuplicate   = "crosstown.duplicate"
	keyTransaction = "crosstown.transaction"
	keyCall        = "crosstown.store.call"
	keyPlugin      = "crosstown.plugin.name"
	keyStage       = "crosstown.plugin.stage"
	keyVerdict     = "crosstown.plugin.verdict"
	keyHops        = "crosstown.hops"
	keyRemote      = "crosstown.remote.name"
)

type destination struct {
	name  string               // path of the entity
	attrs []attribute.KeyValue // attributes of every span for a message
}

func destinationAt(namespace string, a core.Address) destination {
	p := destination{name: a.Unread, attrs: []attribute.KeyValue{attribute.String(keySystem, system)}}
	if namespace != "" {
		p.attrs = append(p.attrs, attribute.String(keyNamespace, namespace))
	}
	if a.Entity == "" {
		return p
	}
	p.name = a.Entity + a.Sub.Suffix()
	topic, subscription, ok := core.SplitSubscription(a.Entity)
	if !ok {
		topic = a.Entity
	}
	p.attrs = append(p.attrs, attribute.String(keyDestination, topic))
	if ok {
		p.attrs = append(p.attrs, attribute.String(keySubscription, subscription))
	}
	if a.Sub != core.Main {
		p.attrs = append(p.attrs, attribute.String(keySubQueue, strings.TrimPrefix(a.Sub.Suffix(), "/")))
	}
	return p
}

// with returns d's attributes followed by more, with capacity for those of a message.
func (d *destination) with(more ...attribute.KeyValue) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, len(d.attrs)+len(more)+4)
	return append(append(attrs, d.attrs...), more...)
}

func describe(attrs []attribute.KeyValue, m *core.Message) []attribute.KeyValue {
	attrs = append(attrs, attribute.Int(keyBodySize, len(m.Body.Bytes)))
	if !m.MessageID.IsZero() {
		attrs = append(attrs, attribute.String(keyMessageID, m.MessageID.String()))
	}
	if !m.CorrelationID.IsZero() {
		attrs = append(attrs, attribute.String(keyConversation, m.CorrelationID.String()))
	}
	return attrs
}

func conclude(s trace.Span, err error) {
	if err != nil {
		code := string(core.CodeOf(err))
		s.SetAttributes(attribute.String(keyError, code))
		s.SetStatus(codes.Error, strings.TrimSpace(code+" "+core.TextOf(err)))
	}
	s.End()
}
