package payload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/semaphore"

	"github.com/crosstown-mq/crosstown/core"
)

type Named struct {
	Name string
	core.Serializer
}

// Chain has serializers in the order in which they are tried. It is immutable and safe for concurrent use.
type Chain struct {
	members []Named
	room    *Room
}

// room may be nil.
func NewChain(room *Room, members ...Named) *Chain { return &Chain{slices.Clone(members), room} }

// serving returns the indexes of the serializers for a type: first those that name it, then those
// whose types are not known yet, then those with a pattern that it matches.
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

// rank returns how well the serializer's types match: 0 is best, 3 means not at all.
func (n *Named) rank(mediaType string) int {
	types := n.ContentTypes()
	rank := 3
	if len(types) == 0 {
		rank = 1 // a plugin that was not launched yet
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

// Enter waits for memory for the decoded body of a message, and takes it until leave is called.
// Body and Transcode call it themselves.
func (c *Chain) Enter(ctx context.Context, m *core.Message) (leave func(), err error) {
	return c.room.enter(ctx, m)
}

func (c *Chain) Body(m *core.Message) (any, error) {
	leave, err := c.Enter(context.Background(), m)
	if err != nil {
		return nil, err
	}
	defer leave()
	return c.Decode(context.Background(), m)
}

// Decode decodes the body of a message, which is nil without a body. The error is a
// *core.Undecodable if no serializer can decode the body. It is Busy or Timeout if one cannot
// answer now, and none that was tried before could decode the body.
func (c *Chain) Decode(ctx context.Context, m *core.Message) (any, error) {
	if m.Body.Kind == core.BodyNone {
		return nil, nil
	}
	if m.ContentEncoding != "" && !strings.EqualFold(m.ContentEncoding, "identity") {
		return nil, fmt.Errorf("the payload has the content encoding %.40q, but the gateway decodes no content encodings: send the payload without one", m.ContentEncoding)
	}
	payload, ok := m.Body.Payload()
	if ok {
		return c.decode(ctx, m.ContentType, payload)
	}
	v, err := m.Body.Value()
	if err != nil {
		return nil, &core.Undecodable{ContentType: m.ContentType, Tried: []core.Attempt{{Serializer: "amqp", Err: err}}}
	}
	if payload, ok := payloadInValue(m, v); ok {
		return c.decode(ctx, m.ContentType, payload)
	}
	return v, nil
}

// payloadInValue returns the payload in an AMQP string or binary with a content type.
func payloadInValue(m *core.Message, v any) (payload []byte, ok bool) {
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

func (c *Chain) try(ctx context.Context, failure *core.Undecodable, i int, contentType string, payload []byte) (any, error) {
	v, err := c.members[i].Decode(ctx, contentType, payload)
	if err != nil {
		failure.Tried = append(failure.Tried, core.Attempt{Serializer: c.members[i].Name, ContentType: mediaType(contentType), Err: err})
	}
	return v, err
}

// isPassing reports whether an error only means that the serializer cannot answer now.
func isPassing(err error) bool {
	code, ok := errors.AsType[core.Code](err)
	return ok && code.Retriable() || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Transcode returns the message in the content type that the receiver (see Accept) prefers most. It
// returns m itself if m has this type, if no serializer writes an accepted type, or with an error
// (see Decode). If checked is true, Transcode also decodes messages that need no transcoding.
func (c *Chain) Transcode(ctx context.Context, m *core.Message, a Accept, checked bool) (*core.Message, error) {
	if m.Body.Kind == core.BodyNone {
		return m, nil
	}
	targets := c.targets(a, declared(m))
	if len(targets) == 0 && !checked {
		return m, nil
	}
	leave, err := c.Enter(ctx, m)
	if err != nil {
		return m, err
	}
	defer leave()
	v, err := c.Decode(ctx, m)
	if err != nil {
		return m, err
	}
	for _, t := range targets {
		payload, produced, err := c.members[t.member].Encode(ctx, t.contentType, v)
		switch {
		case err == nil:
			return withBody(m, payload, produced), nil
		case isPassing(err):
			return m, err
		}
	}
	return m, nil
}

// amqpValueType is the content type that AMQP values and sequences have inside the gateway.
const amqpValueType = "application/x-amqp-value"

func declared(m *core.Message) string {
	if m.Body.Kind == core.BodyData || m.Body.Kind == core.BodyDataSections {
		return mediaType(m.ContentType)
	}
	if v, err := m.Body.Value(); err == nil {
		if _, ok := payloadInValue(m, v); ok {
			return mediaType(m.ContentType)
		}
	}
	return amqpValueType
}

type target struct {
	member      int
	contentType string
}

// targets returns the types that the receiver prefers to the declared one, the best first.
func (c *Chain) targets(a Accept, declared string) []target {
	if a.IsAny() {
		return nil
	}
	var all []target
	has := a.quality(declared)
	for _, r := range a {
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

func withBody(m *core.Message, payload []byte, contentType string) *core.Message {
	changed := *m
	changed.ContentType, changed.ContentEncoding = contentType, ""
	changed.EmptyText &^= core.FieldContentEncoding
	changed.Body = core.Body{Kind: core.BodyData, Bytes: payload}
	return &changed
}

const (
	// A body of at most smallBody bytes takes no room, because it is soon decoded and forgotten.
	smallBody = 64 << 10
	// growth is the largest ratio of a decoded body's memory to the body: each "1," of JSON is an
	// element of 16 bytes in a list, whose capacity doubles when it grows.
	growth = 16
)

// Room is the memory for decoding the large bodies of a gateway. A body waits until its decoded
// form fits. A body that could never fit waits until no other body is being decoded.
type Room struct {
	size int64
	free *semaphore.Weighted
}

// size is in bytes.
func NewRoom(size int64) *Room { return &Room{size, semaphore.NewWeighted(size)} }

// enter takes room for a body until leave is called. It fails only if ctx ends. r may be nil.
func (r *Room) enter(ctx context.Context, m *core.Message) (leave func(), err error) {
	n := int64(len(m.Body.Bytes))
	if r == nil || n <= smallBody {
		return func() {}, nil
	}
	n = min(n*growth, r.size)
	if err := r.free.Acquire(ctx, n); err != nil {
		return nil, err
	}
	return func() { r.free.Release(n) }, nil
}
