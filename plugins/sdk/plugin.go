package sdk

import (
	"context"
	"errors"
	"fmt"

	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

// Plugin describes the services of a program for a gateway. Name must be set, and at least one of
// OnSend, Decode and Encode.
type Plugin struct {
	Name    string
	Version string // the plugin's own, in any form

	// OnSend judges one message. It may change the message's Properties; those changes are part of
	// the verdict. An error means that the message cannot be judged now; the gateway's
	// configuration decides what happens then. A panic counts as an error.
	OnSend func(ctx context.Context, m *Message) (Verdict, error)
	// NeedsBody requests messages with their bodies, which costs time.
	NeedsBody bool
	// Concurrency is the number of messages of one batch that are judged at the same time. The
	// default is 1, which is best for plugins that only compute. Batches are judged concurrently in
	// any case.
	Concurrency int

	// ContentTypes are the media types that Decode and Encode serve, in lower
	// case and without parameters; application/*+avro serves what it matches.
	ContentTypes []string
	// Decode reads a payload. An error means that the payload does not have its type, unless the
	// error is ErrUnavailable.
	Decode func(ctx context.Context, contentType string, payload []byte) (any, error)
	// Encode writes a value as contentType, which is one of ContentTypes.
	Encode func(ctx context.Context, contentType string, v any) ([]byte, error)
}

// ErrUnavailable, or an error that wraps it, says that Decode or Encode failed for a reason
// unrelated to its input: asking again may help.
var ErrUnavailable = errors.New("unavailable")

func (p *Plugin) validate() error {
	switch {
	case p.Name == "":
		return errors.New("sdk: the plugin has no Name: set one")
	case p.OnSend == nil && p.Decode == nil && p.Encode == nil:
		return fmt.Errorf("sdk: plugin %q has no function: set OnSend, or Decode and Encode", p.Name)
	case (p.Decode != nil || p.Encode != nil) && len(p.ContentTypes) == 0:
		return fmt.Errorf("sdk: plugin %q has no ContentTypes: list those that it decodes and encodes", p.Name)
	}
	return nil
}

// Verdict determines what happens to a message. Accept, Drop, DeadLetter, Refuse, To and Also
// create one.
type Verdict struct {
	action      pb.Verdict_Action
	reason      string
	description string
	routes      []string
	beside      bool
}

// Accept lets a message pass.
var Accept = Verdict{}

// Drop accepts a message and discards it. From a subscription's filter, it means that the subscription gets no copy.
func Drop(reason string) Verdict { return Verdict{action: pb.Verdict_DROP, reason: reason} }

// DeadLetter puts a message into the entity's dead-letter queue, with a reason and a description of
// that reason.
func DeadLetter(reason, description string) Verdict {
	return Verdict{action: pb.Verdict_DEAD_LETTER, reason: reason, description: description}
}

// Refuse refuses the send: the sender gets an error with the reason and the
// description, and a batch is not stored at all. A message that was forwarded,
// pulled or routed has no sender: it goes to the entity's dead-letter queue. An
// earlier gateway treats this verdict as a fault of the plugin.
func Refuse(reason, description string) Verdict {
	return Verdict{action: pb.Verdict_REFUSE, reason: reason, description: description}
}

// To sends a message to these queues and topics instead of its destination.
func To(entities ...string) Verdict { return Verdict{routes: entities} }

// Also sends a message to these queues and topics, and lets it pass.
func Also(entities ...string) Verdict { return Verdict{routes: entities, beside: true} }
