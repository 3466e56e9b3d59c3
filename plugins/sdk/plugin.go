package sdk

import (
	"context"
	"errors"
	"fmt"
)

// Plugin is what a program offers to a gateway. Name, and OnSend or Decode or
// Encode, must be set.
type Plugin struct {
	Name    string
	Version string // the plugin's own, in any form

	// OnSend judges one message. It may change the message's Properties; those
	// changes are part of the verdict. An error means that the message cannot be
	// judged now: what then happens is the gateway's configuration. A panic
	// counts as an error.
	OnSend func(ctx context.Context, m *Message) (Verdict, error)
	// NeedsBody has messages come with their bodies, which costs time.
	NeedsBody bool
	// Concurrency is how many messages of one batch are judged at once: 1 unless
	// given, which is best for what only computes. Batches are judged
	// concurrently whatever it is.
	Concurrency int

	// ContentTypes are the media types that Decode and Encode serve, in lower
	// case and without parameters; application/*+avro serves what it matches.
	ContentTypes []string
	// Decode reads a payload. The error is taken to mean that the payload is not
	// of its type, unless it is ErrUnavailable.
	Decode func(ctx context.Context, contentType string, payload []byte) (any, error)
	// Encode writes a value as contentType, one of ContentTypes.
	Encode func(ctx context.Context, contentType string, v any) ([]byte, error)
}

// ErrUnavailable is, or wraps, an error of Decode or Encode that has nothing to do
// with what was given: asking again may help.
var ErrUnavailable = errors.New("unavailable")

func (p *Plugin) validate() error {
	switch {
	case p.Name == "":
		return errors.New("sdk: the plugin has no Name")
	case p.OnSend == nil && p.Decode == nil && p.Encode == nil:
		return fmt.Errorf("sdk: plugin %q does nothing: set OnSend, or Decode and Encode", p.Name)
	case (p.Decode != nil || p.Encode != nil) && len(p.ContentTypes) == 0:
		return fmt.Errorf("sdk: plugin %q serves no ContentTypes", p.Name)
	}
	return nil
}
