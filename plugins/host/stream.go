package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/crosstown-mq/crosstown/internal/wake"
	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

// Reasons why a session does not answer a call.
var (
	errNotTaken = errors.New("the plugin accepts no more calls") // another process may accept the call
	errFull     = errors.New("too many calls wait for the plugin")
	errHung     = errors.New("the plugin stopped answering")
)

type stream interface {
	SendMsg(any) error
	RecvMsg(any) error
	CloseSend() error
}

// session sends calls over a stream. It ends with the stream, or by an answer to no request.
type session struct {
	stream stream
	opts   Options
	wakes  wake.Signal   // wakes the writer
	done   chan struct{} // closed when the session has ended

	mu       sync.Mutex
	err      error
	queue    []*call
	pending  map[uint64]*call // sent calls without an answer, by id
	lastID   uint64
	frames   int // sent frames without any answer yet
	messages int // messages of all calls that wait or were sent
	bytes    int // bytes of all calls that wait
	draining bool
	drained  bool          // after draining, when no call is left: the writer closes the stream
	idle     chan struct{} // closed when the last call has left, during draining
	misses   int           // calls that timed out since the last answer
	answered time.Time
}

type call struct {
	question []byte
	messages int
	asked    time.Time
	id       uint64
	frame    *frame // nil while the call waits
	answer   chan []byte
}

// frame is a sent frame. The first answer to one of its calls lets the writer send another frame,
// so that slow calls do not delay others.
type frame struct{ answered bool }

// newSession starts goroutines, which end when the context of the stream ends.
func newSession(s stream, o Options) *session {
	n := &session{
		stream: s, opts: o, wakes: wake.New(), done: make(chan struct{}),
		pending: map[uint64]*call{}, answered: time.Now(),
	}
	go n.write()
	go n.read()
	return n
}

// ask sends a request, whose id it sets, and waits for the response.
func (s *session) ask(ctx context.Context, r *pb.Request, messages int) (*pb.Response, error) {
	question, err := proto.Marshal(r)
	if err != nil {
		return nil, err
	}
	c := &call{question: question, messages: messages, asked: time.Now(), answer: make(chan []byte, 1)}
	if err := s.enqueue(c); err != nil {
		return nil, err
	}
	encoded, err := s.await(ctx, c)
	if err != nil {
		return nil, err
	}
	a := &pb.Response{}
	if err := proto.Unmarshal(encoded, a); err != nil {
		s.fail(err)
		return nil, err
	}
	return a, nil
}

func (s *session) enqueue(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil || s.draining:
		return errNotTaken
	case s.messages > 0 && (s.messages+c.messages > s.opts.Queue || s.bytes+len(c.question) > maxQueueBytes):
		return errFull
	}
	s.queue = append(s.queue, c)
	s.messages += c.messages
	s.bytes += len(c.question)
	s.wakes.Set()
	return nil
}

func (s *session) await(ctx context.Context, c *call) ([]byte, error) {
	select {
	case a := <-c.answer:
		return a, nil
	case <-ctx.Done():
		if s.abandon(c, errors.Is(ctx.Err(), context.DeadlineExceeded)) {
			return nil, ctx.Err()
		}
	case <-s.done:
	}
	select {
	case a := <-c.answer: // the answer arrived just now
		return a, nil
	default:
		return nil, s.cause()
	}
}

// abandon removes a call whose caller no longer waits; late means that it timed out. abandon
// returns false if an answer has arrived meanwhile, or if the session has ended.
func (s *session) abandon(c *call, late bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return false
	case c.frame == nil:
		i := slices.Index(s.queue, c)
		s.queue = slices.Delete(s.queue, i, i+1)
		s.bytes -= len(c.question)
	case s.pending[c.id] != c:
		return false
	default:
		delete(s.pending, c.id)
	}
	s.leave(c)
	// A call with a short deadline does not show that the plugin is hung.
	if late && time.Since(c.asked) >= s.opts.CallTimeout*3/4 {
		if s.misses++; s.misses >= missLimit && time.Since(s.answered) >= s.opts.CallTimeout {
			s.failLocked(errHung)
		}
	}
	return true
}

// The caller of leave holds s.mu.
func (s *session) leave(c *call) {
	s.messages -= c.messages
	if c.frame != nil && !c.frame.answered {
		c.frame.answered = true
		s.frames--
		s.wakes.Set()
	}
	if s.messages == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// write sends frames, of which at most maxFrames may be unanswered.
func (s *session) write() {
	for {
		out, last := s.next()
		switch {
		case last:
			_ = s.stream.CloseSend()
			return
		case out != nil:
			// If SendMsg returns io.EOF, the method read gets the actual error of the stream.
			if err := s.stream.SendMsg(out); err != nil && !errors.Is(err, io.EOF) {
				s.fail(err)
				return
			}
		default:
			select {
			case <-s.wakes:
			case <-s.done:
				return
			}
		}
	}
}

// next returns the next frame, or nil if none may be sent now. last: no more frames will follow.
func (s *session) next() (out sentFrame, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 || s.frames == maxFrames || s.err != nil {
		return nil, s.drained
	}
	messages, bytes, n := 0, 0, 0
	for _, c := range s.queue {
		if n > 0 && (messages+c.messages > s.opts.Batch || bytes+len(c.question) > maxFrameBytes) {
			break
		}
		messages += c.messages
		bytes += len(c.question)
		n++
	}
	const overhead = 24 // bytes that a frame adds to a request: two tags, a length and an id
	out, f := make(sentFrame, 0, bytes+n*overhead), &frame{}
	for _, c := range s.queue[:n] {
		s.lastID++
		c.id, c.frame = s.lastID, f
		s.pending[c.id] = c
		out = out.appendRequest(c.question, c.id)
	}
	s.frames++
	s.bytes -= bytes
	s.queue = slices.Delete(s.queue, 0, n)
	return out, false
}

func (s *session) read() {
	for {
		var in gotFrame
		err := s.stream.RecvMsg(&in)
		if err == nil {
			err = s.deliver(in)
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

func (s *session) deliver(in gotFrame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range in {
		if p.id == 0 || p.id > s.lastID {
			return fmt.Errorf("the plugin answered request %d, which the gateway did not send", p.id)
		}
		c := s.pending[p.id]
		if c == nil {
			continue // its caller no longer waits
		}
		delete(s.pending, p.id)
		c.answer <- p.encoded
		s.leave(c)
		s.misses, s.answered = 0, time.Now()
	}
	return nil
}

func (s *session) drain(ctx context.Context) {
	s.mu.Lock()
	s.draining = true
	idle := make(chan struct{})
	if s.messages > 0 {
		s.idle = idle
	} else {
		close(idle)
	}
	s.mu.Unlock()
	select {
	case <-idle:
	case <-s.done:
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.drained = true
	s.mu.Unlock()
	s.wakes.Set()
}

func (s *session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(err)
}

func (s *session) failLocked(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	s.queue, s.pending = nil, map[uint64]*call{}
	close(s.done)
}

func (s *session) cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *session) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.messages
}

func (s *session) lately(d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.answered) < d
}

// Field numbers of the contract. Callers encode requests and decode responses, so that this work
// uses all processors. A session only joins encoded requests to frames, and splits frames into
// encoded responses.
const (
	fieldPiece = 1 // in Requests and Responses
	fieldID    = 1 // in Request and Response
)

type sentFrame []byte

func (f sentFrame) appendRequest(encoded []byte, id uint64) sentFrame {
	f = protowire.AppendTag(f, fieldPiece, protowire.BytesType)
	f = protowire.AppendVarint(f, uint64(len(encoded)+protowire.SizeTag(fieldID)+protowire.SizeVarint(id)))
	f = append(f, encoded...)
	f = protowire.AppendTag(f, fieldID, protowire.VarintType)
	return protowire.AppendVarint(f, id)
}

type piece struct {
	id      uint64
	encoded []byte
}

type gotFrame []piece

var errFrame = errors.New("the plugin sent an invalid frame")

func (f *gotFrame) parse(b []byte) error {
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errFrame
		}
		b = b[n:]
		if number != fieldPiece || typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, typ, b); n < 0 {
				return errFrame
			}
			b = b[n:]
			continue
		}
		encoded, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return errFrame
		}
		id, ok := idOf(encoded)
		if !ok {
			return errFrame
		}
		*f = append(*f, piece{id, encoded})
		b = b[n:]
	}
	return nil
}

// idOf returns the id of an encoded message: the last one if there are several, as protobuf does.
func idOf(b []byte) (id uint64, ok bool) {
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0, false
		}
		b = b[n:]
		if number == fieldID && typ == protowire.VarintType {
			if id, n = protowire.ConsumeVarint(b); n < 0 {
				return 0, false
			}
		} else if n = protowire.ConsumeFieldValue(number, typ, b); n < 0 {
			return 0, false
		}
		b = b[n:]
	}
	return id, true
}

type codec struct{}

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(sentFrame)
	if !ok {
		return nil, fmt.Errorf("cannot send %T: it is not a frame", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(f)}, nil
}

// Unmarshal copies data, so that gotFrame shares no memory with it.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*gotFrame)
	if !ok {
		return fmt.Errorf("cannot receive into %T: it is not a frame", v)
	}
	return f.parse(data.Materialize())
}

func (codec) Name() string { return "proto" }
