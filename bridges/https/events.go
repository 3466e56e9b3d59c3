package https

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
)

// events writes a stream of server-sent events, as the HTML standard §9.2
// describes it. It belongs to the request's goroutine.
type events struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	id       core.Identity
	address  string // whose messages they are
	draining <-chan struct{}
	closed   chan error // what ended the receiver; for a stream that has one
	expired  *time.Timer
	beat     *time.Timer
	begun    bool
	buffer   []byte
}

func newEvents(w http.ResponseWriter, r *http.Request, id core.Identity, address string) *events {
	s := &events{
		w: w, control: http.NewResponseController(w), id: id, address: address, draining: draining(r.Context()),
		closed: make(chan error, 1), expired: time.NewTimer(core.Forever), beat: time.NewTimer(streamBeat),
	}
	for _, g := range id {
		if !g.Expires.IsZero() {
			s.expired.Reset(time.Until(g.Expires))
		}
	}
	return s
}

// expel ends the stream, unless something else has ended it.
func (s *events) expel(err error) {
	select {
	case s.closed <- err:
	default:
	}
}

// close frees what events hold.
func (s *events) close() {
	s.expired.Stop()
	s.beat.Stop()
}

// begin sends the head of the answer, so that the client knows that it listens.
func (s *events) begin() error {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	s.begun = true
	s.buffer = fmt.Appendf(s.buffer, "retry: %d\n\n", streamRetry.Milliseconds())
	return s.flush()
}

// message writes an event with a message. Lines of a JSON body become lines of
// the event, which its reader joins.
func (s *events) message(position string, write func(frame.Writer)) {
	s.buffer = append(append(s.buffer, "event: message\nid: "...), position...)
	w := frame.NewWriter(frame.JSON, nil)
	write(w)
	s.data(w.Bytes())
}

// data writes the last field of an event.
func (s *events) data(json []byte) {
	json = bytes.ReplaceAll(bytes.ReplaceAll(json, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	for line := range bytes.SplitSeq(json, []byte("\n")) {
		s.buffer = append(append(s.buffer, "\ndata: "...), line...)
	}
	s.buffer = append(s.buffer, "\n\n"...)
}

// flush sends what was written. A client that does not take it within
// streamTimeout loses the connection.
func (s *events) flush() error {
	_ = s.control.SetWriteDeadline(time.Now().Add(streamTimeout)) // a recorder has none
	_, err := s.w.Write(s.buffer)
	s.buffer = s.buffer[:0]
	if err == nil {
		err = s.control.Flush()
	}
	s.beat.Reset(streamBeat)
	if err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// What ends a stream besides the entity and the token.
var (
	errGone     = errors.New("the client is gone")
	errStopping = core.Refuse(core.Busy, "The gateway is stopping. Connect again.")
)

// await waits for work, and keeps the stream alive meanwhile. Its errors end
// the stream.
func await[T any](ctx context.Context, s *events, work <-chan T) (T, error) {
	var none T
	for {
		select {
		case v := <-work:
			return v, nil
		case err := <-s.closed:
			return none, err
		case <-ctx.Done():
			return none, errGone
		case <-s.draining:
			return none, errStopping
		case <-s.expired.C:
			if err := s.allowed(); err != nil {
				return none, err
			}
			s.expired.Reset(time.Second) // the timer and the clock need not agree to the last
		case <-s.beat.C:
			s.buffer = append(s.buffer, ":\n\n"...)
			if err := s.flush(); err != nil {
				return none, err
			}
		}
	}
}

// allowed reports why the client may no longer receive.
func (s *events) allowed() error {
	address, err := core.ParseAddress(s.address)
	if err != nil {
		return err
	}
	return s.id.Check(core.Listen, address.String(), time.Now())
}

// ended reports what ends a stream that has work to do.
func (s *events) ended(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return errGone
	case <-s.draining:
		return errStopping
	default:
		return nil
	}
}

// end writes the last event: why there are no more.
func (s *events) end(err error, tracking string) {
	if errors.Is(err, errGone) {
		return
	}
	last := struct {
		Code      core.Code `json:"code"`
		Text      string    `json:"text"`
		Retriable bool      `json:"retriable"`
		Tracking  string    `json:"tracking"`
	}{core.CodeOf(err), core.TextOf(err), core.CodeOf(err).Retriable(), tracking}
	if last.Text == "" {
		last.Text = conditions[last.Code].text
	}
	data, err := json.Marshal(last)
	if err != nil {
		panic(err) // texts and a boolean can always be written
	}
	s.buffer = append(s.buffer, "event: end"...)
	s.data(data)
	_ = s.flush() // nothing follows
}
