package messages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

// shown is a message as --json prints it, one a line; send --records reads it.
type shown struct {
	SequenceNumber   int64       `json:"sequenceNumber"`
	MessageID        string      `json:"messageId,omitempty"`
	State            string      `json:"state"`
	EnqueuedTime     *time.Time  `json:"enqueuedTime,omitempty"`
	ExpiresAt        *time.Time  `json:"expiresAt,omitempty"`
	ScheduledTime    *time.Time  `json:"scheduledEnqueueTime,omitempty"`
	DeliveryCount    uint32      `json:"deliveryCount"` // this delivery included; 0 if it is only peeked at
	Subject          *string     `json:"subject,omitempty"`
	ContentType      *string     `json:"contentType,omitempty"`
	CorrelationID    *string     `json:"correlationId,omitempty"`
	SessionID        *string     `json:"sessionId,omitempty"`
	PartitionKey     *string     `json:"partitionKey,omitempty"`
	To               *string     `json:"to,omitempty"`
	ReplyTo          *string     `json:"replyTo,omitempty"`
	ReplyToSessionID *string     `json:"replyToSessionId,omitempty"`
	DeadLetterReason *string     `json:"deadLetterReason,omitempty"`
	DeadLetterText   *string     `json:"deadLetterErrorDescription,omitempty"`
	DeadLetterSource *string     `json:"deadLetterSource,omitempty"`
	Properties       TypedValues `json:"properties,omitempty"`
	Body             string      `json:"body"`
	BodyEncoding     string      `json:"bodyEncoding,omitempty"` // "base64", or "" for text

	failures uint32 // deliveries so far of a message that is peeked at
}

func show(m *azservicebus.ReceivedMessage) shown {
	s := shown{
		MessageID:        m.MessageID,
		State:            [...]string{"active", "deferred", "scheduled"}[min(max(m.State, 0), 2)],
		EnqueuedTime:     m.EnqueuedTime,
		ScheduledTime:    m.ScheduledEnqueueTime,
		DeliveryCount:    m.DeliveryCount,
		Subject:          m.Subject,
		ContentType:      m.ContentType,
		CorrelationID:    m.CorrelationID,
		SessionID:        m.SessionID,
		PartitionKey:     m.PartitionKey,
		To:               m.To,
		ReplyTo:          m.ReplyTo,
		ReplyToSessionID: m.ReplyToSessionID,
		DeadLetterReason: m.DeadLetterReason,
		DeadLetterText:   m.DeadLetterErrorDescription,
		DeadLetterSource: m.DeadLetterSource,
		Properties:       m.ApplicationProperties,
	}
	if m.SequenceNumber != nil {
		s.SequenceNumber = *m.SequenceNumber
	}
	// The SDK's own ExpiresAt is the enqueued time where a message does not expire, and ends at 49.7 days.
	if p := m.RawAMQPMessage.Properties; p != nil && m.TimeToLive != nil && *m.TimeToLive > 0 && p.AbsoluteExpiryTime != nil && p.CreationTime != nil && m.EnqueuedTime != nil {
		s.ExpiresAt = new(m.EnqueuedTime.Add(p.AbsoluteExpiryTime.Sub(*p.CreationTime)))
	}
	s.Body, s.BodyEncoding = record.BodyText(m.Body)
	return s
}

// shownOf is a message that was peeked at as it is encoded.
func shownOf(a *amqp.Arrival) shown {
	text := func(f core.TextFields, v string) *string {
		if !a.Has(f, v) {
			return nil
		}
		return &v
	}
	s := shown{
		SequenceNumber: a.SequenceNumber, MessageID: a.MessageID.String(), State: stateWords[a.State], failures: a.DeliveryCount,
		EnqueuedTime: at(a.EnqueuedTime), ScheduledTime: at(a.ScheduledEnqueueTime), CorrelationID: optional(a.CorrelationID.String()),
		Subject: text(core.FieldSubject, a.Subject), ContentType: text(core.FieldContentType, a.ContentType), SessionID: text(core.FieldSessionID, a.SessionID),
		PartitionKey: text(core.FieldPartitionKey, a.PartitionKey), To: text(core.FieldTo, a.To), ReplyTo: text(core.FieldReplyTo, a.ReplyTo),
		ReplyToSessionID: text(core.FieldReplyToSessionID, a.ReplyToSessionID), DeadLetterSource: optional(a.DeadLetterSource),
		DeadLetterReason: optional(reasonOf(a)), DeadLetterText: optional(propertyOf(a, core.PropertyDeadLetterDescription)),
		Properties: TypedValues{},
	}
	maps.Insert(s.Properties, a.Properties.All())
	s.Body, s.BodyEncoding = record.BodyText(a.Body.Bytes)
	return s
}

// typedText is a property's value, with its AMQP type.
func typedText(v any) string {
	v = fromSDK(v)
	encoded, err := value.Append(nil, v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%s (%s)", propertyText(v), value.KindOf(encoded))
}

// at is nil for the zero time.
func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// printMessages writes messages to w, for a person or one JSON object a line.
func printMessages(w io.Writer, asJSON bool, ms []*azservicebus.ReceivedMessage) error {
	for _, m := range ms {
		s := show(m)
		if asJSON {
			if err := json.NewEncoder(w).Encode(s); err != nil {
				return err
			}
			continue
		}
		if _, err := io.WriteString(w, s.text()); err != nil {
			return err
		}
	}
	return nil
}

func (s *shown) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d  %s  %s", s.SequenceNumber, s.MessageID, s.State)
	if s.EnqueuedTime != nil {
		fmt.Fprintf(&b, "  %s", s.EnqueuedTime.UTC().Format(time.RFC3339))
	}
	if s.failures > 0 {
		fmt.Fprintf(&b, "  failed deliveries: %d", s.failures)
	}
	if s.DeliveryCount > 1 {
		fmt.Fprintf(&b, "  delivery %d", s.DeliveryCount)
	}
	b.WriteByte('\n')
	for _, f := range []struct {
		name string
		v    *string
	}{
		{"subject", s.Subject},
		{"content type", s.ContentType},
		{"correlation id", s.CorrelationID},
		{"session", s.SessionID},
		{"partition key", s.PartitionKey},
		{"to", s.To},
		{"reply to", s.ReplyTo},
		{"reply to session", s.ReplyToSessionID},
		{"dead-letter reason", s.DeadLetterReason},
		{"dead-letter description", s.DeadLetterText},
		{"dead-letter source", s.DeadLetterSource},
	} {
		if f.v != nil {
			fmt.Fprintf(&b, "  %s: %s\n", f.name, cmp.Or(*f.v, `""`))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.Properties)) {
		fmt.Fprintf(&b, "  %s = %s\n", k, typedText(s.Properties[k]))
	}
	b.WriteString(s.Body)
	if !strings.HasSuffix(s.Body, "\n") {
		b.WriteByte('\n')
	}
	return b.String()
}
