package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/typedjson"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

// typedValues are properties as the SDK has them. Their JSON keeps their AMQP types.
type typedValues map[string]any

// MarshalJSON writes them, by name.
func (v typedValues) MarshalJSON() ([]byte, error) {
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

// toSDK is the reverse of fromSDK.
func toSDK(v any) (any, error) {
	switch v := v.(type) {
	case value.Timestamp:
		return time.UnixMilli(int64(v)).UTC(), nil
	case value.UUID:
		return amqp.UUID(v), nil
	case value.Symbol:
		return amqp.Symbol(v), nil
	case nil, bool, string, []byte, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64:
		return v, nil
	}
	return nil, fmt.Errorf("this command cannot send a value of type %T; crosstown restore keeps it", v)
}

// recordOf reads a line that receive --json or backup has written; nil where it is not a message.
func recordOf(line []byte) (*azservicebus.Message, error) {
	var l record.Line
	if err := json.Unmarshal(line, &l); err != nil {
		return nil, fmt.Errorf("it is not what receive --json or crosstown backup prints: %w", err)
	}
	if l.Message == nil {
		return nil, nil
	}
	stored, err := l.Stored()
	if err != nil {
		return nil, err
	}
	m := stored.Message
	if m.Body.Kind != core.BodyData {
		return nil, fmt.Errorf("its body has the type %s, and this command sends only data; crosstown restore keeps it", l.BodyType)
	}
	out := &azservicebus.Message{
		Body: m.Body.Bytes, ContentType: l.ContentType, Subject: l.Subject, SessionID: l.SessionID, PartitionKey: l.PartitionKey, To: l.To,
		ReplyTo: l.ReplyTo, ReplyToSessionID: l.ReplyToSessionID, MessageID: optional(m.MessageID.String()), CorrelationID: optional(m.CorrelationID.String()),
	}
	if m.HasSession() {
		out.SessionID = &m.SessionID
	}
	if m.TimeToLive > 0 {
		out.TimeToLive = &m.TimeToLive
	}
	if stored.State == core.Scheduled {
		out.ScheduledEnqueueTime = &m.ScheduledEnqueueTime
	}
	for k, v := range m.Properties.All() {
		if out.ApplicationProperties == nil {
			out.ApplicationProperties = make(map[string]any)
		}
		if out.ApplicationProperties[k], err = toSDK(v); err != nil {
			return nil, fmt.Errorf("property %s: %w", k, err)
		}
	}
	return out, nil
}

// keyText tells a key from none.
func keyText(key *string) string {
	if key == nil {
		return ""
	}
	return "=" + *key
}

// records sends each line of r that is a message. A batch has messages of one session or partition key.
func (s *sending) records(r io.Reader) error {
	var together [2]string // session and partition key of the batch
	n := 0
	for line := range lines(r) {
		n++
		if line.err != nil {
			return line.err
		}
		if len(bytes.TrimSpace(line.data)) == 0 {
			continue
		}
		m, err := recordOf(line.data)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if m == nil {
			continue
		}
		if pin := [2]string{keyText(m.SessionID), keyText(m.PartitionKey)}; pin != together {
			if err := s.flush(); err != nil {
				return err
			}
			together = pin
		}
		if err := s.batched(m); err != nil {
			return err
		}
		if !line.more {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return s.flush()
}
