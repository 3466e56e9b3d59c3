package sdk

import (
	"context"
	"errors"
	"fmt"

	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

// Plugin describes what a program does for a gateway. Name and at least one of OnSend, Decode and
// Encode are required.
type Plugin struct {
	Name    string
	Version string // in any form

	// OnSend decides what happens to a message. It may change the message's Properties, which become
	// part of the verdict. After an error or a panic, the gateway refuses the message or lets it pass,
	// as configured.
	OnSend func(ctx context.Context, m *Message) (Verdict, error)
	// NeedsBody requests messages with their bodies, which takes more time.
	NeedsBody bool
	// Concurrency is the number of messages of one batch for which OnSend runs at the same time. The
	// default, 1, is best for plugins that only compute. Different batches always run concurrently.
	Concurrency int

	// ContentTypes are the media types for Decode and Encode, in lower case and without parameters. A
	// pattern such as application/*+avro matches several.
	ContentTypes []string
	// Decode returns the value of a payload. An error means that the payload is invalid, except for
	// ErrUnavailable.
	Decode func(ctx context.Context, contentType string, payload []byte) (any, error)
	// Encode returns v as a payload of contentType, which is one of ContentTypes.
	Encode func(ctx context.Context, contentType string, v any) ([]byte, error)
}

// ErrUnavailable, or an error that wraps it, means that Decode or Encode failed although the input
// may be valid, so that the gateway may try again.
var ErrUnavailable = errors.New("temporarily unavailable")

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

// Verdict says what happens to a message. Use Accept, Drop, DeadLetter, Refuse, To or Also.
type Verdict struct {
	action      pb.Verdict_Action
	reason      string
	description string
	routes      []string
	beside      bool
}

// Accept lets a message pass.
var Accept = Verdict{}

// Drop discards a message; its sender gets no error. At stage Filter, the subscription gets no
// copy.
func Drop(reason string) Verdict { return Verdict{action: pb.Verdict_DROP, reason: reason} }

// DeadLetter moves a message to the entity's dead-letter queue, with a reason and a description.
func DeadLetter(reason, description string) Verdict {
	return Verdict{action: pb.Verdict_DEAD_LETTER, reason: reason, description: description}
}

// Refuse makes the send fail: the sender gets an error with reason and description, and the gateway
// stores no message of the batch. If the message was forwarded, pulled or routed, it goes to the
// entity's dead-letter queue instead. Gateways before this verdict treat it as a fault of the
// plugin.
func Refuse(reason, description string) Verdict {
	return Verdict{action: pb.Verdict_REFUSE, reason: reason, description: description}
}

// To sends a message to these queues and topics instead of its destination.
func To(entities ...string) Verdict { return Verdict{routes: entities} }

// Also sends a message to its destination and to these queues and topics.
func Also(entities ...string) Verdict { return Verdict{routes: entities, beside: true} }
