// Package record defines the format of backups. Each line is a JSON object. The first line is a
// header. Lines for namespaces and entities follow, then the partitions of queues and topics. After
// the line of a partition come the items that core.Backups exports from it. The last line contains
// the number of lines before it, and their checksum.
//
// A message has the members of crosstown receive --json, and members that only a store knows. Typed
// values have the format of the WebSocket protocol.
package record

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/bridges/typedjson"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

const Version = 1

// Line is a line of a backup. Exactly one of its exported members is set.
type Line struct {
	Backup    *Header         `json:"backup,omitempty"`
	Namespace *core.Namespace `json:"namespace,omitempty"`
	Entity    *core.Entity    `json:"entityDescription,omitempty"`
	Partition *Partition      `json:"partition,omitempty"`
	Thing     *Thing          `json:"thing,omitempty"`
	*Message
	End *End `json:"end,omitempty"`

	stored *core.Stored // what Message was decoded to; nil before
}

type Header struct {
	Version int       `json:"version"`
	Made    time.Time `json:"made"`
	By      string    `json:"by"`    // version of Crosstown that made the backup
	Store   string    `json:"store"` // kind of store, such as file or redis
}

type Partition struct {
	Namespace string `json:"namespace"` // ID of the namespace
	Entity    string `json:"entity"`
	ID        string `json:"id"`
	Index     uint16 `json:"index"`
}

type End struct {
	Lines    int    `json:"lines"` // number of lines before this line
	Messages int    `json:"messages"`
	CRC32C   string `json:"crc32c"` // checksum of all bytes before this line
}

type Thing struct {
	Kind         string    `json:"kind"`
	Subscription string    `json:"subscription,omitempty"`
	Sub          int       `json:"subQueue,omitempty"`
	Last         int64     `json:"last,omitempty"`
	Session      *string   `json:"sessionId,omitempty"`
	State        *Octets   `json:"state,omitempty"`
	Key          *Octets   `json:"key,omitempty"`
	Time         time.Time `json:"time,omitzero"`
}

// Octets are bytes. In JSON they are a string if they are UTF-8, otherwise {"$binary":"base64"}.
type Octets []byte

func (o Octets) MarshalJSON() ([]byte, error) {
	if utf8.Valid(o) {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false) // the encoder of the whole line decides whether to escape
		err := e.Encode(string(o))
		return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
	}
	return json.Marshal(map[string][]byte{"$binary": o})
}

func (o *Octets) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*o = Octets(text)
		return nil
	}
	var binary struct {
		Octets []byte `json:"$binary"`
	}
	err := json.Unmarshal(data, &binary)
	*o = binary.Octets
	return err
}

// Message is a message in the format of crosstown receive --json and send --records.
type Message struct {
	Entity           string          `json:"entity,omitempty"` // path of the queue or subscription, and its sub-queue; a restore ignores it
	SequenceNumber   int64           `json:"sequenceNumber"`
	MessageID        json.RawMessage `json:"messageId,omitempty"`
	State            string          `json:"state"`
	EnqueuedTime     time.Time       `json:"enqueuedTime,omitzero"`
	ExpiresAt        time.Time       `json:"expiresAt,omitzero"`
	ScheduledTime    time.Time       `json:"scheduledEnqueueTime,omitzero"`
	DeadLetteredTime time.Time       `json:"deadLetteredTime,omitzero"`
	DeliveryCount    uint32          `json:"deliveryCount"`
	Subject          string          `json:"subject,omitempty"`
	ContentType      string          `json:"contentType,omitempty"`
	CorrelationID    json.RawMessage `json:"correlationId,omitempty"`
	SessionID        string          `json:"sessionId,omitempty"`
	PartitionKey     string          `json:"partitionKey,omitempty"`
	To               string          `json:"to,omitempty"`
	ReplyTo          string          `json:"replyTo,omitempty"`
	ReplyToSessionID string          `json:"replyToSessionId,omitempty"`
	Properties       json.RawMessage `json:"properties,omitempty"`
	Body             string          `json:"body"`
	BodyEncoding     string          `json:"bodyEncoding,omitempty"` // "base64", or "" for text

	// BodyType is "" for one data section, "dataSections" for several, "value", "sequence" or
	// "none". Body is in AMQP encoding if BodyType is "dataSections", "value" or "sequence".
	BodyType            string          `json:"bodyType,omitempty"`
	BodyMissing         bool            `json:"bodyMissing,omitempty"` // the message has no body, not even an empty one
	TimeToLive          string          `json:"timeToLive,omitempty"`
	ContentEncoding     string          `json:"contentEncoding,omitempty"`
	ViaPartitionKey     string          `json:"viaPartitionKey,omitempty"`
	UserID              *Octets         `json:"userId,omitempty"`
	GroupSequence       *uint32         `json:"groupSequence,omitempty"`
	CreationTime        time.Time       `json:"creationTime,omitzero"`
	AbsoluteExpiryTime  time.Time       `json:"absoluteExpiryTime,omitzero"`
	WasScheduled        bool            `json:"wasScheduled,omitempty"`
	Durable             *bool           `json:"durable,omitempty"`
	FirstAcquirer       *bool           `json:"firstAcquirer,omitempty"`
	Priority            *uint8          `json:"priority,omitempty"`
	EmptyText           core.TextFields `json:"emptyText,omitempty"`
	Annotations         core.Properties `json:"annotations,omitzero"`         // AMQP encoding
	DeliveryAnnotations core.Properties `json:"deliveryAnnotations,omitzero"` // AMQP encoding
	Footer              []byte          `json:"footer,omitempty"`             // AMQP encoding
	Transit             *core.Transit   `json:"transit,omitempty"`
	EnqueuedSequence    int64           `json:"enqueuedSequenceNumber,omitempty"`
	InSession           bool            `json:"inSession,omitempty"`
	Subscription        string          `json:"subscription,omitempty"` // ID of the subscription
	Sub                 int             `json:"subQueue,omitempty"`

	// Commands print these members for dead letters. Parse ignores them: they are also in Properties.
	DeadLetterReason string `json:"deadLetterReason,omitempty"`
	DeadLetterText   string `json:"deadLetterErrorDescription,omitempty"`
	DeadLetterSource string `json:"deadLetterSource,omitempty"`
}

var kinds = map[core.StoredKind]string{
	core.StoredLast: "lastSequenceNumber", core.StoredState: "sessionState", core.StoredSeen: "seenMessageId", core.StoredMove: "move",
}

var bodyTypes = [...]string{core.BodyData: "", core.BodyDataSections: "dataSections", core.BodyValue: "value", core.BodySequence: "sequence", core.BodyNone: "none"}

var states = [...]string{core.Active: "active", core.Deferred: "deferred", core.Scheduled: "scheduled"}

// Of returns the line for x, an item of a partition. path is its queue, topic or subscription.
func Of(x *core.Stored, path string) Line {
	if x.Kind == core.StoredMessage {
		return Line{Message: messageOf(x, path+x.Sub.Suffix())}
	}
	t := &Thing{Kind: kinds[x.Kind], Subscription: x.Subscription, Sub: int(x.Sub), Last: x.Last, Time: x.Time}
	switch x.Kind {
	case core.StoredState:
		t.Session, t.State = &x.Session, (*Octets)(&x.SessionState)
	case core.StoredSeen, core.StoredMove:
		t.Key = new(Octets(x.Key))
	}
	return Line{Thing: t}
}

// Stored is the inverse of Of: it returns the item for a line that is a Thing or a Message.
func (l *Line) Stored() (*core.Stored, error) {
	if l.Message != nil {
		if l.stored != nil {
			return l.stored, nil
		}
		x, err := l.Message.stored()
		l.stored = x
		return x, err
	}
	t := l.Thing
	for kind, name := range kinds {
		if name != t.Kind {
			continue
		}
		if t.Sub < 0 || t.Sub >= int(core.SubQueues) {
			return nil, fmt.Errorf("the line refers to sub-queue %d, which does not exist", t.Sub)
		}
		x := &core.Stored{Kind: kind, Subscription: t.Subscription, Sub: core.SubQueue(t.Sub), Last: t.Last, Time: t.Time}
		if kind == core.StoredState {
			if t.Session == nil || t.State == nil {
				return nil, fmt.Errorf("the line of a session's state has no sessionId or no state")
			}
			x.Session, x.SessionState = *t.Session, append([]byte{}, *t.State...)
		}
		if t.Key != nil {
			x.Key = string(*t.Key)
		}
		return x, nil
	}
	return nil, fmt.Errorf("the kind of line %q is unknown to this version", t.Kind)
}

func messageOf(x *core.Stored, path string) *Message {
	m := x.Message
	r := &Message{
		Entity: path, SequenceNumber: x.SequenceNumber, State: states[x.State], EnqueuedTime: x.EnqueuedTime, ExpiresAt: x.ExpiresAt,
		DeadLetteredTime: x.DeadLetteredTime, ScheduledTime: m.ScheduledEnqueueTime, DeliveryCount: x.DeliveryCount, MessageID: idOf(m.MessageID), CorrelationID: idOf(m.CorrelationID),
		BodyType: bodyTypes[m.Body.Kind], BodyMissing: m.Body.Bytes == nil, CreationTime: m.CreationTime, AbsoluteExpiryTime: m.AbsoluteExpiryTime,
		WasScheduled: m.WasScheduled, EmptyText: m.EmptyText, Annotations: m.Annotations, DeliveryAnnotations: m.DeliveryAnnotations,
		Footer: m.Footer, EnqueuedSequence: x.EnqueuedSequenceNumber, InSession: x.InSession, Subscription: x.Subscription, Sub: int(x.Sub),
		Subject: m.Subject, ContentType: m.ContentType, SessionID: m.SessionID, PartitionKey: m.PartitionKey, To: m.To, ReplyTo: m.ReplyTo,
		ReplyToSessionID: m.ReplyToSessionID, ContentEncoding: m.ContentEncoding, ViaPartitionKey: m.ViaPartitionKey,
		Durable: pointer(m.Durable), FirstAcquirer: pointer(m.FirstAcquirer), Priority: pointer(m.Priority), GroupSequence: pointer(m.GroupSequence),
	}
	if m.UserID != nil {
		r.UserID = (*Octets)(&m.UserID)
	}
	if m.TimeToLive != 0 {
		r.TimeToLive = m.TimeToLive.String()
	}
	if !m.Properties.IsEmpty() {
		r.Properties = typedjson.Properties(m.Properties)
	}
	if m.Transit != nil {
		r.Transit = new(*m.Transit)
	}
	r.Body, r.BodyEncoding = BodyText(m.Body.Bytes)
	return r
}

func BodyText(body []byte) (text, encoding string) {
	if utf8.Valid(body) {
		return string(body), ""
	}
	return base64.StdEncoding.EncodeToString(body), "base64"
}

func (r *Message) Bytes() ([]byte, error) {
	switch r.BodyEncoding {
	case "":
		return []byte(r.Body), nil
	case "base64":
		return base64.StdEncoding.DecodeString(r.Body)
	}
	return nil, fmt.Errorf("bodyEncoding %q is unknown: use base64, or leave bodyEncoding out", r.BodyEncoding)
}

func pointer[T any](o value.Opt[T]) *T {
	if !o.Set {
		return nil
	}
	return &o.V
}

func option[T any](p *T) (o value.Opt[T]) {
	if p != nil {
		o = value.Some(*p)
	}
	return o
}

func idOf(id core.ID) json.RawMessage {
	switch raw := id.Raw(); {
	case id.IsZero():
		return nil
	case id.Kind() == core.IDULong:
		return typedjson.Value(id.ULong())
	case id.Kind() == core.IDUUID && len(raw) == len(value.UUID{}):
		return typedjson.Value(value.UUID([]byte(raw)))
	case id.Kind() == core.IDBinary:
		return typedjson.Value([]byte(raw))
	default:
		return typedjson.Value(raw)
	}
}

func parseID(data json.RawMessage) (core.ID, error) {
	if data == nil {
		return core.ID{}, nil
	}
	v, err := typedjson.ParseValue(data)
	if err != nil {
		return core.ID{}, err
	}
	switch v := v.(type) {
	case string:
		return core.StringID(v), nil
	case uint64:
		return core.ULongID(v), nil
	case value.UUID:
		return core.UUIDID(v), nil
	case []byte:
		return core.BinaryID(v), nil
	}
	return core.ID{}, fmt.Errorf("%s cannot be an id: use a string, or an object with $ulong, $uuid or $binary", data)
}

func index(names []string, name, member string) (int, error) {
	if i := slices.Index(names, name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("the %s %q is unknown", member, name)
}

func (r *Message) stored() (*core.Stored, error) {
	x := &core.Stored{Kind: core.StoredMessage, Subscription: r.Subscription, Sub: core.SubQueue(r.Sub), InSession: r.InSession}
	state, err := index(states[:], r.State, "state")
	bodyType, badType := index(bodyTypes[:], r.BodyType, "bodyType")
	if err = errors.Join(err, badType); err != nil {
		return nil, err
	}
	if r.Sub < 0 || r.Sub >= int(core.SubQueues) {
		return nil, fmt.Errorf("the line refers to sub-queue %d, which does not exist", r.Sub)
	}
	x.BrokerProperties = core.BrokerProperties{
		SequenceNumber: r.SequenceNumber, EnqueuedSequenceNumber: cmp.Or(r.EnqueuedSequence, r.SequenceNumber), EnqueuedTime: r.EnqueuedTime,
		ExpiresAt: r.ExpiresAt, DeadLetteredTime: r.DeadLetteredTime, DeliveryCount: r.DeliveryCount, State: core.State(state),
	}
	m := &core.Message{
		ScheduledEnqueueTime: r.ScheduledTime, CreationTime: r.CreationTime, AbsoluteExpiryTime: r.AbsoluteExpiryTime,
		WasScheduled: r.WasScheduled, EmptyText: r.EmptyText, Annotations: r.Annotations, DeliveryAnnotations: r.DeliveryAnnotations,
		Footer: r.Footer, Transit: r.Transit,
		Subject: r.Subject, ContentType: r.ContentType, SessionID: r.SessionID, PartitionKey: r.PartitionKey, To: r.To, ReplyTo: r.ReplyTo,
		ReplyToSessionID: r.ReplyToSessionID, ContentEncoding: r.ContentEncoding, ViaPartitionKey: r.ViaPartitionKey,
		Durable: option(r.Durable), FirstAcquirer: option(r.FirstAcquirer), Priority: option(r.Priority), GroupSequence: option(r.GroupSequence),
	}
	if r.UserID != nil {
		m.UserID = append([]byte{}, *r.UserID...)
	}
	if r.Transit != nil {
		x.DeadLetterSource = r.Transit.DeadLetterSource
	}
	var errs [5]error
	m.MessageID, errs[0] = parseID(r.MessageID)
	m.CorrelationID, errs[1] = parseID(r.CorrelationID)
	if r.TimeToLive != "" {
		m.TimeToLive, errs[2] = time.ParseDuration(r.TimeToLive)
	}
	if r.Properties != nil {
		m.Properties, errs[3] = typedjson.ParseProperties(r.Properties)
	}
	m.Body.Kind = core.BodyKind(bodyType)
	if !r.BodyMissing {
		m.Body.Bytes, errs[4] = r.Bytes()
	}
	for i, member := range [...]string{"messageId", "correlationId", "timeToLive", "properties", "body"} {
		if errs[i] != nil {
			return nil, fmt.Errorf("%s: %w", member, errs[i])
		}
	}
	x.Message = m
	return x, nil
}

// Parse parses a line that the commands record, receive --json or backup wrote. entity is the
// message's entity, or "". stored is nil if the line is a part of a backup, but not a message.
func Parse(line []byte) (stored *core.Stored, entity string, err error) {
	var l Line
	if err := json.Unmarshal(line, &l); err != nil {
		return nil, "", fmt.Errorf("the line is not in the format of crosstown record, receive --json or backup: %w: repair or remove the line", err)
	}
	if l.Message == nil {
		if (l == Line{}) {
			return nil, "", errors.New("the line is neither a message nor part of a backup: repair or remove the line")
		}
		return nil, "", nil
	}
	if stored, err = l.Stored(); err != nil {
		return nil, "", fmt.Errorf("%w: repair or remove the line", err)
	}
	return stored, l.Message.Entity, nil
}
