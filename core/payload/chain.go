package payload

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

// Named is a serializer with the name that the configuration and dead letters
// call it by.
type Named struct {
	Name string
	core.Serializer
}

// Chain is serializers in the order in which they are tried. It is immutable
// and may be used by many goroutines.
type Chain struct {
	members []Named
}

// NewChain makes a chain.
func NewChain(members ...Named) *Chain { return &Chain{slices.Clone(members)} }

// serving returns the members that serve a type: those that name it, then those
// that do not know yet what they serve, then those of which a pattern matches.
func (c *Chain) serving(mediaType string) []int {
	if mediaType == "" {
		return nil
	}
	serving := make([]int, 0, len(c.members))
	for rank := range 3 {
		for i := range c.members {
			if c.members[i].rank(mediaType) == rank {
				serving = append(serving, i)
			}
		}
	}
	return serving
}

// rank says how well a member serves a type: 0 is best, 3 not at all.
func (n *Named) rank(mediaType string) int {
	types := n.ContentTypes()
	rank := 3
	if len(types) == 0 {
		rank = 1 // a plugin that has not been launched yet
	}
	for _, t := range types {
		switch {
		case t == mediaType:
			return 0
		case isPattern(t) && matches(t, mediaType):
			rank = 2
		}
	}
	return rank
}

// errEncoded: what is compressed is nobody's to read.
var errEncoded = errors.New("the payload has a content encoding")

// Body decodes the body of a message, for conditions on its fields.
func (c *Chain) Body(m *core.Message) (any, error) { return c.Decode(context.Background(), m) }

// Decode decodes the body of a message; none is null. The error is a *core.Undecodable if no
// serializer can, or Busy or Timeout if one that comes first cannot say now.
func (c *Chain) Decode(ctx context.Context, m *core.Message) (any, error) {
	if m.Body.Kind == core.BodyNone {
		return nil, nil
	}
	if m.ContentEncoding != "" && !strings.EqualFold(m.ContentEncoding, "identity") {
		return nil, errEncoded
	}
	payload, ok := m.Body.Payload()
	if ok {
		return c.decode(ctx, m.ContentType, payload)
	}
	v, err := m.Body.Value()
	if err != nil {
		return nil, &core.Undecodable{ContentType: m.ContentType, Tried: []core.Attempt{{Serializer: "amqp", Err: err}}}
	}
	if payload, ok := contained(m, v); ok {
		return c.decode(ctx, m.ContentType, payload)
	}
	return v, nil
}

// contained returns the payload in an AMQP value that is a text or binary, if
// the message says what content type it is of.
func contained(m *core.Message, v any) (payload []byte, ok bool) {
	if mediaType(m.ContentType) == "" || m.Body.Kind != core.BodyValue {
		return nil, false
	}
	switch v := v.(type) {
	case string:
		return []byte(v), true
	case []byte:
		return v, true
	}
	return nil, false
}

func (c *Chain) decode(ctx context.Context, contentType string, payload []byte) (any, error) {
	failure := &core.Undecodable{ContentType: contentType}
	serving := c.serving(mediaType(contentType))
	for _, i := range serving {
		if v, err := c.try(ctx, failure, i, contentType, payload); err == nil || isPassing(err) {
			return v, err
		}
	}
	for i := range c.members {
		if slices.Contains(serving, i) {
			continue
		}
		if v, err := c.try(ctx, failure, i, "", payload); err == nil || isPassing(err) {
			return v, err
		}
	}
	return nil, failure
}

// try asks one serializer, and notes its failure.
func (c *Chain) try(ctx context.Context, failure *core.Undecodable, i int, contentType string, payload []byte) (any, error) {
	v, err := c.members[i].Decode(ctx, contentType, payload)
	if err != nil {
		failure.Tried = append(failure.Tried, core.Attempt{Serializer: c.members[i].Name, ContentType: mediaType(contentType), Err: err})
	}
	return v, err
}

// isPassing reports whether an error says nothing of the payload: the
// serializer could not be asked.
func isPassing(err error) bool {
	code, ok := errors.AsType[core.Code](err)
	return ok && code.Retriable() || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Transcode returns the message in the content type that is liked best: itself
// if it is of that type already, or if no serializer writes what is accepted.
// Errors are those of Decode; the message is returned beside them.
func (c *Chain) Transcode(ctx context.Context, m *core.Message, a Accept) (*core.Message, error) {
	return c.convert(ctx, m, a, false)
}

// convert transcodes; if checked it decodes what needs no transcoding too.
func (c *Chain) convert(ctx context.Context, m *core.Message, a Accept, checked bool) (*core.Message, error) {
	if m.Body.Kind == core.BodyNone {
		return m, nil
	}
	targets := c.targets(a, declared(m))
	if len(targets) == 0 && !checked {
		return m, nil
	}
	v, err := c.Decode(ctx, m)
	if err != nil {
		return m, err
	}
	for _, t := range targets {
		payload, produced, err := c.members[t.member].Encode(ctx, t.contentType, v)
		switch {
		case err == nil:
			return rewritten(m, payload, produced), nil
		case isPassing(err):
			return m, err
		}
	}
	return m, nil
}

// typeOfValues stands for the content type of AMQP values and sequences.
const typeOfValues = "application/x-amqp-value"

// declared is the type of what a message's body holds, "" if it does not say.
func declared(m *core.Message) string {
	if m.Body.Kind == core.BodyData || m.Body.Kind == core.BodyDataSections {
		return mediaType(m.ContentType)
	}
	if v, err := m.Body.Value(); err == nil {
		if _, ok := contained(m, v); ok {
			return mediaType(m.ContentType)
		}
	}
	return typeOfValues
}

// target is a content type that a member may write.
type target struct {
	member      int
	contentType string
}

// targets are what is liked better than the declared type, the best first.
func (c *Chain) targets(a Accept, declared string) []target {
	if a.IsAny() {
		return nil
	}
	var all []target
	has := a.quality(declared)
	for _, r := range a.ranges {
		if r.quality <= has {
			break
		}
		if !isPattern(r.pattern) {
			for _, i := range c.serving(r.pattern) {
				all = append(all, target{i, r.full})
			}
			continue
		}
		for i, m := range c.members {
			for _, t := range m.ContentTypes() {
				if !isPattern(t) && matches(r.pattern, t) && a.quality(t) == r.quality {
					all = append(all, target{i, t})
				}
			}
		}
	}
	return all
}

// rewritten is the message with another body.
func rewritten(m *core.Message, payload []byte, contentType string) *core.Message {
	changed := *m
	changed.ContentType, changed.ContentEncoding = contentType, ""
	changed.EmptyText &^= core.FieldContentEncoding
	changed.Body = core.Body{Kind: core.BodyData, Bytes: payload}
	return &changed
}

// describe is what the dead letter of a payload says. The broker shortens it.
func describe(u *core.Undecodable) core.Properties {
	p, err := core.NewProperties(
		core.Property{Key: core.PropertyDeadLetterReason, Value: core.ReasonDeserializationFailed},
		core.Property{Key: core.PropertyDeadLetterDescription, Value: strings.ToValidUTF8(u.Error(), "\uFFFD")})
	if err != nil {
		return core.Properties{}
	}
	return p
}
