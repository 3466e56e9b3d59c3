package https

import (
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// Content types of bodies whose message names none, or not what was made of it.
const (
	typeBytes = "application/octet-stream"
	typeText  = "text/plain; charset=utf-8"
	typeJSON  = "application/json"
)

// renderBody makes of a message's body what an HTTP client can read, and says
// its content type, "" if the message has neither. A body that cannot be read as its kind is sent as it is.
func renderBody(m *core.Message) (body []byte, contentType string) {
	declared := func(otherwise string) string {
		if m.ContentType != "" && isPrintable(m.ContentType) {
			return m.ContentType
		}
		return otherwise
	}
	if m.Body.Kind == core.BodyNone {
		return nil, declared("")
	}
	if payload, ok := m.Body.Payload(); ok {
		return payload, declared(typeBytes)
	}
	v, err := m.Body.Value()
	if err != nil {
		return m.Body.Bytes, declared(typeBytes)
	}
	if m.Body.Kind == core.BodyValue {
		switch v := v.(type) {
		case string:
			return []byte(v), declared(typeText)
		case value.Symbol:
			return []byte(v), declared(typeText)
		case []byte:
			return v, declared(typeBytes)
		}
	}
	return value.AppendJSON(nil, v), typeJSON
}
