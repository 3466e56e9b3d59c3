package core

import (
	"context"
	"fmt"
	"strings"
)

// Router decides about messages before they enter an entity. It may run in another process. If a
// call fails, none of its messages has a verdict. After Busy (it cannot answer now) or Timeout (it
// has not answered in time), the call may be repeated.
type Router interface {
	// Route returns one verdict per message, in order. It reads the messages only until it returns.
	Route(ctx context.Context, at Stage, ms []*Message) ([]Verdict, error)
}

type StageKind uint8

const (
	// StageIngress decides about every message sent to the entity, before StageFilter and StageTo.
	StageIngress StageKind = iota
	// StageFilter evaluates plugin(…) in the rules of a topic's subscriptions. VerdictPass means
	// true, VerdictDrop false; any other action is an error of the rule. The rest of the verdict is
	// ignored. Rules with the same call get the same answer.
	StageFilter
	// StageTo interprets the property To of messages, if the entity enables it.
	StageTo
	// StageSchema checks messages against the entity's schema, before all other stages.
	StageSchema
)

func (k StageKind) String() string { return [...]string{"ingress", "filter", "to", "schema"}[k] }

type Stage struct {
	Kind StageKind
	// Entity is the queue or topic to which the messages are sent.
	Entity     string
	Parameters Properties // from the configuration of the stage
}

type VerdictAction uint8

// A router that cannot judge a message should choose VerdictDeadLetter.
const (
	VerdictPass       VerdictAction = iota
	VerdictDrop                     // accepted for the sender, but not stored
	VerdictDeadLetter               // the message goes to the entity's dead-letter queue
	// VerdictRefuse refuses, with NotAllowed, the message and everything that would be stored with
	// it. A message that was forwarded, pulled from a remote or routed becomes a dead letter
	// instead, because no sender waits for the refusal.
	VerdictRefuse
)

func (a VerdictAction) String() string {
	return [...]string{"pass", "drop", "dead-letter", "refuse"}[a]
}

// Verdict is a router's answer for one message. The zero Verdict passes the message unchanged.
type Verdict struct {
	Action VerdictAction
	// Reason says why a message was not stored. It becomes PropertyDeadLetterReason.
	Reason string
	// Description explains the Reason. It becomes PropertyDeadLetterDescription.
	Description string
	// Remove has the names of user properties to remove; Set has properties to set afterwards. Both
	// apply to every message that results from this one.
	Set    Properties
	Remove []string
	// Routes are the addresses of entities that get the message after VerdictPass: instead of its
	// own entity or, if Beside is true, in addition to it.
	Routes []string
	Beside bool
}

func (v *Verdict) Revise(p Properties) Properties { return p.Without(v.Remove...).Merge(v.Set) }

// Serializer reads and writes payloads of some content types, and is safe for concurrent use.
// Values have the Go types that core/value lists: nil, bool, the integers, float32 and float64, the
// decimals, string, []byte, value.Timestamp, value.UUID, value.List and value.Map. Decode may also
// return symbols, chars, arrays and described values. Encode accepts all of these; for a type that
// its format lacks, it writes the most similar one.
type Serializer interface {
	// ContentTypes returns the media types that the serializer handles, in lower case, without
	// parameters, the preferred one first. '*' matches any characters: application/*+json, text/*.
	// An empty list means that the types are not known yet.
	ContentTypes() []string
	// Decode reads a payload. contentType is the declared type with its parameters; it is "" if
	// none is declared or the serializer does not handle it. Busy and Timeout mean that the
	// serializer cannot answer now; any other error, that the payload is not in its format. The
	// value shares no memory with the payload.
	Decode(ctx context.Context, contentType string, payload []byte) (any, error)
	// Encode writes a value as contentType, a type of ContentTypes that may have parameters.
	// produced is the payload's content type, with parameters.
	Encode(ctx context.Context, contentType string, v any) (payload []byte, produced string, err error)
}

// ReasonDeserializationFailed is the reason of dead letters that no serializer could decode.
const ReasonDeserializationFailed = "DeserializationFailed"

// Attempt is a serializer's failure to decode a payload.
type Attempt struct {
	Serializer string
	// ContentType is the declared type that selected the serializer; "" if it was only tried because
	// it is in the entity's chain.
	ContentType string
	Err         error
}

// Undecodable is the error for a payload that no serializer could decode.
type Undecodable struct {
	ContentType string    // as the message declares it
	Tried       []Attempt // in order
}

func (u *Undecodable) Error() string {
	var b strings.Builder
	if u.ContentType == "" {
		b.WriteString("The payload, which declares no content type, could not be deserialized.")
	} else {
		fmt.Fprintf(&b, "The payload, declared as %.100q, could not be deserialized.", u.ContentType)
	}
	if len(u.Tried) == 0 {
		b.WriteString(" No serializer supports this type.")
		return b.String()
	}
	b.WriteString(" Tried: ")
	for i, a := range u.Tried {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(a.Serializer)
		if a.ContentType != "" {
			fmt.Fprintf(&b, " for %.100s", a.ContentType)
		}
		fmt.Fprintf(&b, ": %.300v", a.Err)
	}
	b.WriteString(".")
	return b.String()
}
