package core

import (
	"fmt"

	"github.com/crosstown-mq/crosstown/core/value"
)

// maxSections is the maximum size, in bytes, of a body with several sections that Value decodes.
// value.Limits bounds only each section, and decoded values need several times the memory.
const maxSections = 1 << 20

// Payload returns the bytes of an opaque payload, with its sections joined; the caller must not
// change them. ok is false for AMQP values and sequences, and for a damaged body.
func (b Body) Payload() (payload []byte, ok bool) {
	switch b.Kind {
	case BodyData, BodyNone:
		return b.Bytes, true
	case BodyDataSections:
		joined := make([]byte, 0, len(b.Bytes))
		ok := b.EachSection(func(section []byte) error {
			data, _, err := value.ReadBinary(section)
			joined = append(joined, data...)
			return err
		}) == nil
		return joined, ok
	default:
		return nil, false
	}
}

// Value decodes an AMQP value or sequence; several sequences become a list of lists. It fails if
// the sections together are too large.
func (b Body) Value() (any, error) {
	var sections value.List
	err := b.EachSection(func(section []byte) error {
		if len(sections) > 0 && len(b.Bytes) > maxSections {
			return fmt.Errorf("the sections of the body have %d bytes in total: at most %d are allowed", len(b.Bytes), maxSections)
		}
		v, _, err := value.Decode(section, value.Limits{})
		sections = append(sections, v)
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the body: %w", err)
	case b.Kind == BodyValue && len(sections) == 1, b.Kind == BodySequence && len(sections) == 1:
		return sections[0], nil
	case b.Kind == BodySequence && len(sections) > 1:
		return sections, nil
	default:
		return nil, fmt.Errorf("the body has %d sections: it must be one AMQP value section, or AMQP sequence sections", len(sections))
	}
}

// EachSection calls f with the encoded value of each section, until an error.
func (b Body) EachSection(f func(section []byte) error) error {
	for rest := b.Bytes; len(rest) > 0; {
		section, after, err := value.ReadRaw(rest)
		if err != nil {
			return err
		}
		if value.KindOf(section) == value.KindDescribed {
			if _, section, err = value.ReadRaw(section[1:]); err != nil {
				return err
			}
		}
		if err := f(section); err != nil {
			return err
		}
		rest = after
	}
	return nil
}
