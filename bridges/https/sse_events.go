package https

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// events writes server-sent events (HTML §9.2). Only the request's goroutine may call methods other
// than expel.
type events struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	id       core.Identity
	address  core.Address
	about    bridges.Connection
	owner    *link.Owner // answers censuses; the stream itself has no jobs
	draining <-chan struct{}
	closed   chan error // receives the reason when the broker or an operator ends the stream
	expired  *time.Timer
	beat     *time.Timer
	begun    bool
	buffer   []byte
	memory   *fair.Share
	waiting  int
	charged  int // bytes of waiting messages and of buffer that memory counts
	size     int // bytes of the last message; 1 before the first one
}

const (
	eventsPage = 64 << 10
	writePiece = 64 << 10
	// largeMessage is the size in bytes above which a message gets a buffer of its own.
	largeMessage = 256 << 10
	eventHeads   = 16 << 10
)

func newEvents(w http.ResponseWriter, r *http.Request, id core.Identity, address core.Address) *events {
	s := &events{
		w: w, control: http.NewResponseController(w), id: id, address: address, draining: bridges.Ending(r.Context()),
		closed: make(chan error, 1), expired: time.NewTimer(core.Forever), beat: time.NewTimer(streamBeat),
		memory: visitOf(r).memory, size: 1, owner: link.New(func() {}, func(error) {}),
	}
	for _, g := range id {
		if !g.Expires.IsZero() {
			s.expired.Reset(time.Until(g.Expires))
		}
	}
	return s
}

// expel ends the stream, unless it is ending already. Any goroutine may call it.
func (s *events) expel(err error) {
	select {
	case s.closed <- err:
	default:
	}
}

func (s *events) close() {
	s.expired.Stop()
	s.beat.Stop()
}

func (s *events) begin() error {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would delay events
	s.begun = true
	s.buffer = fmt.Appendf(s.buffer, "retry: %d\n\n", streamRetry.Milliseconds())
	return s.flush()
}

func (s *events) room(ctx context.Context) error {
	for s.memory.Available(int64(s.size)) == 0 && s.memory.Fits(int64(s.size)) {
		s.memory.Wait(int64(s.size))
		if _, err := await(ctx, s, s.memory.Woken()); err != nil {
			return err
		}
	}
	return nil
}

func (s *events) got(ds ...core.Delivery) {
	for i := range ds {
		s.size = ds[i].Size()
		s.waiting += s.size
	}
	s.charge()
}

func (s *events) charge() {
	held := s.waiting + len(s.buffer)
	s.memory.Add(int64(held - s.charged))
	s.charged = held
}

// message adds the event of a message, which no longer counts as waiting. It replaces line ends
// between JSON tokens by spaces, because they would end the event's data.
func (s *events) message(position string, d *core.Delivery, write func(codec.Writer)) {
	size := d.Size()
	if size >= largeMessage {
		s.buffer = slices.Grow(s.buffer, size*4/3+eventHeads) // the body is most likely encoded in base64
	}
	s.buffer = append(append(append(s.buffer, "event: message\nid: "...), position...), "\ndata: "...)
	start := len(s.buffer)
	w := codec.NewWriter(codec.JSON, s.buffer)
	write(w)
	s.buffer = w.Bytes()
	for text := s.buffer[start:]; ; {
		i := bytes.IndexAny(text, "\r\n")
		if i < 0 {
			break
		}
		text[i] = ' '
		text = text[i+1:]
	}
	s.buffer = append(s.buffer, "\n\n"...)
	s.waiting -= size
	d.Message = nil
	s.charge()
}

// flush writes the buffer. If a piece takes longer than streamTimeout, it closes the connection.
func (s *events) flush() error {
	defer func() {
		if s.buffer = s.buffer[:0]; cap(s.buffer) > largeMessage {
			s.buffer = nil
		}
		s.charge()
		s.beat.Reset(streamBeat)
	}()
	for rest := s.buffer; len(rest) > 0; {
		piece := rest[:min(writePiece, len(rest))]
		rest = rest[len(piece):]
		_ = s.control.SetWriteDeadline(time.Now().Add(streamTimeout)) // ignore the error: writers of tests have no deadlines
		if _, err := s.w.Write(piece); err != nil {
			return fmt.Errorf("%w: %w", errGone, err)
		}
	}
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

var (
	errGone     = errors.New("the client has disconnected")
	errStopping = core.Refuse(core.Busy, "The gateway is stopping. Connect again.")
)

// await waits for work, and meanwhile keeps the connection alive. After an error, the stream ends.
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
			s.expired.Reset(time.Second) // the timer may fire slightly before the clock says so
		case <-s.beat.C:
			s.buffer = append(s.buffer, ":\n\n"...)
			if err := s.flush(); err != nil {
				return none, err
			}
		}
	}
}

func (s *events) allowed() error {
	return s.id.Check(core.Listen, s.address.String(), time.Now())
}

func (s *events) ended(ctx context.Context) error {
	select {
	case err := <-s.closed:
		return err
	case <-ctx.Done():
		return errGone
	case <-s.draining:
		return errStopping
	default:
		return nil
	}
}

func (s *events) end(err error, tracking string) {
	if errors.Is(err, errGone) {
		return
	}
	last := struct {
		Code      core.Code `json:"code"`
		Text      string    `json:"text"`
		Retriable bool      `json:"retriable"`
		Tracking  string    `json:"tracking"`
	}{core.CodeOf(err), textOf(err), core.CodeOf(err).Retriable(), tracking}
	data, err := json.Marshal(last)
	if err != nil {
		panic(err) // texts and a boolean can always be encoded
	}
	s.buffer = fmt.Appendf(s.buffer, "event: end\ndata: %s\n\n", data)
	_ = s.flush() // ignore the error: the client misses only this event
}
