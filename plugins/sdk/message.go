package sdk

import (
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/plugins/internal/typed"
	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

// Stage is the step of processing at which the gateway calls the plugin.
type Stage string

const (
	Ingress Stage = "ingress" // a client sent the message to the entity
	Filter  Stage = "filter"  // a subscription asks whether it gets a copy: Accept or Drop
	ByTo    Stage = "to"      // the message has a destination in To: choose where it goes
)

// Message is a message as its sender sent it. The plugin may change the map Properties, but not
// lists and binaries inside it. It must not keep any part of a Message after the call.
type Message struct {
	Stage      Stage
	Entity     string         // the queue or topic to which the message was sent; for Filter, the subscription
	Parameters map[string]any // set in the gateway's configuration where it names the plugin

	MessageID        string
	CorrelationID    string
	UserID           []byte
	To               string
	Subject          string
	ReplyTo          string
	ContentType      string
	ContentEncoding  string
	SessionID        string
	ReplyToSessionID string
	PartitionKey     string

	CreationTime         time.Time // all times are zero if not set
	AbsoluteExpiryTime   time.Time
	ScheduledEnqueueTime time.Time
	TimeToLive           time.Duration
	Durable              bool
	Priority             uint8 // default 4

	Properties  map[string]any
	Annotations map[string]any

	// Body is nil unless the plugin sets NeedsBody. BodySize is always set.
	Body     []byte
	BodySize int
}

// defaultPriority is the default of AMQP 1.0 §3.2.1.
const defaultPriority = 4

// messageOf returns m with Stage, Entity and Parameters of at. It also returns the values of
// m.Properties, in their order.
func messageOf(at *Message, m *pb.Message) (*Message, []any, error) {
	came := make([]any, len(m.Properties))
	properties := make(map[string]any, len(m.Properties))
	for i, p := range m.Properties {
		v, err := typed.Of(p.Value)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot decode property %q: %w", p.Key, err)
		}
		came[i], properties[p.Key] = v, v
	}
	annotations, err := mapOf(m.Annotations)
	if err != nil {
		return nil, nil, err
	}
	out := &Message{
		Stage: at.Stage, Entity: at.Entity, Parameters: at.Parameters,
		MessageID: m.MessageId, CorrelationID: m.CorrelationId, UserID: m.UserId,
		To: m.To, Subject: m.Subject, ReplyTo: m.ReplyTo,
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding,
		SessionID: m.SessionId, ReplyToSessionID: m.ReplyToSessionId, PartitionKey: m.PartitionKey,
		CreationTime: moment(m.CreationTime), AbsoluteExpiryTime: moment(m.AbsoluteExpiryTime),
		ScheduledEnqueueTime: moment(m.ScheduledEnqueueTime), TimeToLive: time.Duration(m.GetTimeToLiveMs()) * time.Millisecond,
		Durable: m.Durable, Priority: defaultPriority,
		Properties: properties, Annotations: annotations,
		Body: m.Body, BodySize: int(m.BodySize),
	}
	if m.Priority != nil {
		out.Priority = uint8(*m.Priority)
	}
	return out, came, nil
}

func moment(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms).UTC()
}

func mapOf(ps []*pb.Property) (map[string]any, error) {
	if len(ps) == 0 {
		return nil, nil
	}
	m := make(map[string]any, len(ps))
	for _, p := range ps {
		v, err := typed.Of(p.Value)
		if err != nil {
			return nil, fmt.Errorf("cannot decode property %q: %w", p.Key, err)
		}
		m[p.Key] = v
	}
	return m, nil
}

// changes adds to v the properties in now that differ from came, their original values.
func changes(v *pb.Verdict, properties []*pb.Property, came []any, now map[string]any) error {
	kept := 0
	for i, p := range properties {
		after, ok := now[p.Key]
		if !ok {
			v.Remove = append(v.Remove, p.Key)
			continue
		}
		kept++
		if !value.Equal(came[i], after) {
			if err := set(v, p.Key, after); err != nil {
				return err
			}
		}
	}
	if kept == len(now) {
		return nil
	}
	old := make(map[string]bool, len(properties))
	for _, p := range properties {
		old[p.Key] = true
	}
	for k, after := range now {
		if !old[k] {
			if err := set(v, k, after); err != nil {
				return err
			}
		}
	}
	return nil
}

func set(v *pb.Verdict, key string, to any) error {
	made, err := typed.From(natural(to))
	if err != nil {
		return fmt.Errorf("cannot encode property %q: %w", key, err)
	}
	v.Set = append(v.Set, &pb.Property{Key: typed.Text(key), Value: made})
	return nil
}

func natural(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case uint:
		return uint64(v)
	case time.Time:
		return Timestamp(v.UnixMilli())
	case []any:
		return List(v)
	}
	return v
}

// Types of AMQP values for which Go has no type. Other values are nil, bool, integers of 8 to 64
// bits, float32, float64, string and []byte.
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

// ParseDecimal128 converts a number as JSON writes it, without rounding. ok is false if s is not a
// number, or has more than 34 digits.
func ParseDecimal128(s string) (d Decimal128, ok bool) { return value.ParseDecimal128(s) }

// ParseUUID parses hexadecimal digits in groups of 8-4-4-4-12.
func ParseUUID(s string) (UUID, error) { return value.ParseUUID(s) }

// Int converts a value of any integer type. ok is false for other types, and if v exceeds an int64.
func Int(v any) (n int64, ok bool) { return value.Int(v) }

// Float converts a value of any floating-point or integer type. ok is false for other types, and
// for integers that a double might not hold exactly.
func Float(v any) (f float64, ok bool) { return value.Float(v) }
