package topics

import (
	"errors"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/rules"
)

// bodyDecoder decodes the bodies of messages that are published together.
type bodyDecoder struct {
	decode func(*core.Message) (any, error)
	// err is that of a decoder that was not available. Then the rules were evaluated without the
	// body, and their result must not be used.
	err error
}

// facts adds the decoder to the facts of a message.
func (d *bodyDecoder) facts(known rules.Facts) rules.Facts {
	if d != nil {
		known.Body = d.body
	}
	return known
}

func (d *bodyDecoder) body(m *core.Message) (any, error) {
	v, err := d.decode(m)
	if code, ok := errors.AsType[core.Code](err); ok && code.Retriable() && d.err == nil {
		d.err = err
	}
	return v, err
}

// failure is why the rules could not be evaluated.
func (d *bodyDecoder) failure() error {
	if d == nil {
		return nil
	}
	return d.err
}
