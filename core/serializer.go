package core

import (
	"context"
	"fmt"
	"strings"
)

// Serializer reads and writes payloads of some content types. It is safe for concurrent use.
//
// Values have the Go types that core/value lists: nil, bool, the integers, float32 and float64, the
// decimals, string, []byte, value.Timestamp, value.UUID, value.List and value.Map. Decode may also
// return symbols, chars, arrays and described values. Encode accepts all of these, and writes those
// that its format does not have as the nearest that it has.
type Serializer interface {
	// ContentTypes are the media types that it handles, in lower case, without parameters, the
	// preferred one first. A '*' stands for any characters: application/*+json, text/*. None means
	// that it does not know yet.
	ContentTypes() []string
	// Decode reads a payload of the declared content type, with parameters; contentType is "" if
	// the message declares none, or one that another serializer handles. Busy and Timeout mean that
	// it cannot decide now, any other error that the payload is not in its format. The value shares
	// no memory with the payload.
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
	Serializer  string // its name
	ContentType string // the declared type that it was chosen for; "" if it was tried because it is in the chain
	Err         error
}

// Undecodable says that no serializer could decode a payload, and which ones were tried, in order.
type Undecodable struct {
	ContentType string // as the message declares it
	Tried       []Attempt
}

// Error is the text for the dead letter's description: what was tried, in order.
func (u *Undecodable) Error() string {
	var b strings.Builder
	if u.ContentType == "" {
		b.WriteString("The payload, which declares no content type, could not be deserialized.")
	} else {
		fmt.Fprintf(&b, "The payload, declared as %.100q, could not be deserialized.", u.ContentType)
	}
	if len(u.Tried) == 0 {
		b.WriteString(" No serializer serves it.")
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
