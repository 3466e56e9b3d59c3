package core

import (
	"context"
	"fmt"
	"strings"
)

// Router decides about messages before they enter an entity. It may run in another process, so a
// call can fail; then none of its messages has a verdict. Busy means that the router cannot answer
// now, and Timeout that it did not answer in time. After either of these, the call may be repeated.
type Router interface {
	// Route judges messages at one stage. It returns one verdict per message, in their order. It
	// only reads the messages, and only until it returns.
	Route(ctx context.Context, at Stage, ms []*Message) ([]Verdict, error)
}

// StageKind says what a router's verdicts are for.
type StageKind uint8

// The stages.
const (
	// StageIngress is for every message that is sent to the entity, and comes first.
	StageIngress StageKind = iota
	// StageFilter is plugin(…) in the rules of a topic's subscriptions. Pass means true, Drop means
	// false, and any other action is an error in the rule. The rest of the verdict is ignored.
	// Rules with the same call share an answer.
	StageFilter
	// StageTo interprets the property To of messages that are sent to an entity which enables this
	// stage.
	StageTo
	// StageSchema compares messages with the schema of the entity, before all other stages.
	StageSchema
)

func (k StageKind) String() string { return [...]string{"ingress", "filter", "to", "schema"}[k] }

// Stage is the place in a pipeline at which a router is called.
type Stage struct {
	Kind StageKind
	// Entity is the queue or topic that messages are sent to.
	Entity string
	// Parameters are the parameters in the stage's configuration.
	Parameters Properties
}

// VerdictAction determines what happens to the message itself.
type VerdictAction uint8

// The actions. A router that fails to judge one message dead-letters it.
const (
	VerdictPass       VerdictAction = iota // the message passes
	VerdictDrop                            // the message is accepted and dropped
	VerdictDeadLetter                      // the message goes to the entity's dead-letter queue
	// VerdictRefuse refuses the message, and everything that would be stored with it, with
	// NotAllowed. A message that was forwarded, pulled or routed has no sender that could get the
	// refusal, so it is dead-lettered instead.
	VerdictRefuse
)

func (a VerdictAction) String() string {
	return [...]string{"pass", "drop", "dead-letter", "refuse"}[a]
}

// Verdict is a router's answer for one message. With the zero Verdict the message passes unchanged.
type Verdict struct {
	Action VerdictAction
	// Reason is why a message was dropped, refused or dead-lettered. A dead letter has it as its
	// PropertyDeadLetterReason.
	Reason string
	// Description explains the Reason. A dead letter has it as its PropertyDeadLetterDescription.
	Description string
	// Set contains user properties to set, and Remove the names of properties to remove before
	// that. Both apply to every message that results from this one.
	Set    Properties
	Remove []string
	// Routes are the addresses of entities to which the message goes: instead of its own entity or,
	// if Beside is true, in addition to it. They matter only if Action is VerdictPass.
	Routes []string
	Beside bool
}

// Revise returns p with the changes of the verdict.
func (v *Verdict) Revise(p Properties) Properties { return p.Without(v.Remove...).Merge(v.Set) }

// Serializer reads and writes payloads of some content types. It is safe for concurrent use.
//
// Values have the Go types that core/value lists: nil, bool, the integers, float32 and float64, the
// decimals, string, []byte, value.Timestamp, value.UUID, value.List and value.Map. Decode may also
// return symbols, chars, arrays and described values. Encode accepts all of these, and writes a
// type that its format lacks as the nearest type that the format has.
type Serializer interface {
	// ContentTypes are the media types that the serializer handles, in lower case, without
	// parameters, the preferred one first. A '*' matches any characters: application/*+json,
	// text/*. An empty list means that the serializer does not know its types yet.
	ContentTypes() []string
	// Decode reads a payload of the declared content type, with parameters. contentType is "" if
	// the message declares none, or one that another serializer handles. Busy and Timeout mean that
	// the serializer cannot decide now. Any other error means that the payload is not in its
	// format. The value shares no memory with the payload.
	Decode(ctx context.Context, contentType string, payload []byte) (any, error)
	// Encode writes a value as contentType, which is one of ContentTypes or matches one, and may
	// have parameters. produced is the content type of the payload, with parameters.
	Encode(ctx context.Context, contentType string, v any) (payload []byte, produced string, err error)
}

// ReasonDeserializationFailed is the dead-letter reason of a message whose
// payload no serializer of its entity's chain could decode.
const ReasonDeserializationFailed = "DeserializationFailed"

// Attempt is a serializer's failure to decode a payload.
type Attempt struct {
	Serializer  string // the serializer's name
	ContentType string // the declared type that it was chosen for; "" if it was tried only because it is in the chain
	Err         error
}

// Undecodable is the error of a payload that no serializer could decode. It lists the serializers
// that were tried, in order.
type Undecodable struct {
	ContentType string // as the message declares it
	Tried       []Attempt
}

// Error returns the text for the dead letter's description: what was tried, in order.
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
