package https

import (
	"bufio"
	"net"
	"net/http"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// statusGone is reported to Options.Answered if the client disconnected before the response began.
const statusGone = 499

type answer struct {
	http.ResponseWriter
	r     *http.Request
	tell  func(route string, status int)
	route string
	told  bool
}

func on(w http.ResponseWriter, route string) {
	if a, ok := w.(*answer); ok {
		a.route = route
	}
}

func (a *answer) note(status int) {
	if !a.told {
		a.told = true
		if a.r.Context().Err() != nil {
			status = statusGone
		}
		a.tell(a.route, status)
	}
}

func (a *answer) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		a.note(status)
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	a.note(http.StatusOK)
	return a.ResponseWriter.Write(p)
}

func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err == nil {
		a.note(http.StatusSwitchingProtocols)
	}
	return nc, rw, err
}

// Unwrap lets http.ResponseController find the original writer.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) end() { a.note(http.StatusOK) }

// Content types for messages without one, or whose body the bridge converts.
const (
	typeBytes = "application/octet-stream"
	typeText  = "text/plain; charset=utf-8"
	typeJSON  = "application/json"
)

// renderBody returns a message's body as HTTP clients can read it, and its content type, or "" if
// there is none. If the body is not valid for its kind, it returns the body unchanged.
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
