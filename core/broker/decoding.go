package broker

import (
	"errors"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/rules"
)

// decoding decodes the bodies of messages that are published together.
type decoding struct {
	decode func(*core.Message) (any, error)
	// err is that of a decoder that could not be asked. Then the rules have judged
	// without knowing, and nothing may come of it.
	err error
}

// decodingFor returns nil if none of the rules looks into bodies.
func (b *Broker) decodingFor(s *rules.Set) *decoding {
	if b.options.Body == nil || !s.ReadsBodies() {
		return nil
	}
	return &decoding{decode: b.options.Body}
}

// facts adds the decoder to what is known of a message.
func (d *decoding) facts(known rules.Facts) rules.Facts {
	if d != nil {
		known.Body = d.body
	}
	return known
}

func (d *decoding) body(m *core.Message) (any, error) {
	v, err := d.decode(m)
	if code, ok := errors.AsType[core.Code](err); ok && code.Retriable() && d.err == nil {
		d.err = err
	}
	return v, err
}

// failure is why the rules could not judge.
func (d *decoding) failure() error {
	if d == nil {
		return nil
	}
	return d.err
}
