package fair

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
)

const (
	firstGrant = 64 << 10 // bytes that are first taken for a message of unknown size
	// maxLeap is the factor by which buffers grow: they have 64 KiB, 1 MiB, 18 MiB and 300 MiB, so
	// copying leaves little garbage.
	maxLeap = 17
)

// Gather also returns other errors: those of the reader, of Await and of Inspect.
var (
	ErrTooLarge = errors.New("the message is larger than the limit for messages")
	ErrTooSlow  = errors.New("the rest of the message did not arrive in time")
)

type Arrival struct {
	Reader   io.Reader
	Deadline func(time.Time) error // sets a deadline for Reads; nil if Reads do not block
	Size     int64                 // bytes that the sender has declared; negative: none
	Limit    int64
	Buffer   []byte // used if the message fits into it; may be nil
	Control  bool   // the message may free memory: up to 64 KiB of it are read even at Tight and Full

	// Inspect may be nil. It gets the first 64 KiB of a larger message, and returns a new Limit.
	Inspect func(start []byte) (limit int64, err error)
}

type gathering struct {
	*Arrival
	share   *Share
	taken   int64
	message []byte
	pace    Pace
}

// Gather takes memory from the share's pool for the bytes that it returns, and none if it fails. It
// waits for memory only once, before it reads most of the message. The message must arrive at the
// speed that Pace requires.
func (s *Share) Gather(ctx context.Context, a Arrival) ([]byte, error) {
	g := gathering{Arrival: &a, share: s}
	err := g.begin(ctx)
	for err == nil {
		err = g.more(ctx)
	}
	if errors.Is(err, io.EOF) {
		s.Add(int64(len(g.message)) - g.taken)
		return g.message, nil
	}
	s.Add(-g.taken)
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		err = ErrTooSlow
	}
	return nil, err
}

func (g *gathering) begin(ctx context.Context) error {
	if g.Size > g.Limit {
		return ErrTooLarge
	}
	first := min(firstGrant, g.Limit)
	if g.Size >= 0 && (g.Size < firstGrant || g.Inspect == nil) {
		first = g.Size
	}
	if !g.Control || first > firstGrant || !g.share.take(first, false) {
		if err := g.share.Await(ctx, first); err != nil {
			return err
		}
	}
	g.taken = first
	if g.message = g.Buffer; int64(cap(g.message)) < min(first, firstGrant) || g.message == nil {
		g.message = make([]byte, 0, min(first, firstGrant))
	}
	g.message = g.message[:0:min(int64(cap(g.message)), first)]
	g.pace = Begin(time.Now())
	return nil
}

func (g *gathering) more(ctx context.Context) error {
	if len(g.message) < cap(g.message) {
		n, err := g.read(g.message[len(g.message):cap(g.message)])
		g.message = g.message[:len(g.message)+n]
		return err
	}
	var next [1]byte // for a byte beyond the buffer
	n, err := g.read(next[:])
	if n == 0 {
		return err
	}
	if failed := g.grow(ctx); failed != nil {
		return failed
	}
	g.message = append(g.message, next[0])
	return err
}

func (g *gathering) read(into []byte) (int, error) {
	if g.Deadline == nil {
		return g.Reader.Read(into)
	}
	if err := g.Deadline(g.pace.Due()); err != nil {
		return 0, err
	}
	n, err := g.Reader.Read(into)
	if n > 0 {
		g.pace.Went(n, time.Now())
	}
	return n, err
}

func (g *gathering) grow(ctx context.Context) error {
	have := int64(len(g.message))
	if have >= firstGrant && g.Inspect != nil {
		limit, err := g.Inspect(g.message)
		if err != nil {
			return err
		}
		g.Limit, g.Inspect = limit, nil
	}
	if have >= g.Limit || g.Inspect == nil && g.Size > g.Limit {
		return ErrTooLarge
	}
	if have == g.taken {
		if err := g.extend(ctx, have); err != nil {
			return err
		}
	}
	grown := make([]byte, have, min(g.taken, max(maxLeap*have, firstGrant)))
	copy(grown, g.message)
	g.message = grown
	return nil
}

func (g *gathering) extend(ctx context.Context, have int64) error {
	size := min(max(maxLeap*have, firstGrant), g.Limit)
	if g.Size > have {
		size = g.Size
	}
	if have <= firstGrant { // at most firstGrant bytes may be held during a wait
		if err := g.share.Await(ctx, size-have); err != nil {
			return err
		}
		g.pace = Begin(time.Now())
	} else if !g.share.Take(size - have) {
		return g.share.Refuse(size)
	}
	g.taken = size
	return nil
}

// A message that has begun may pause for at most Grace, and must arrive at MinRate on average. So a
// large message gets the time that it needs, and a stalled one occupies memory for at most Grace.
const (
	Grace   = 20 * time.Second
	MinRate = 16 << 10 // bytes per second
)

type Pace struct{ due time.Time }

func Begin(now time.Time) Pace { return Pace{now.Add(Grace)} }

func (p *Pace) Went(n int, now time.Time) {
	p.due = p.due.Add(time.Duration(n) * time.Second / MinRate)
	if latest := now.Add(Grace); p.due.After(latest) {
		p.due = latest
	}
}

// Paused records that the gateway has read nothing until now: the client was not too slow.
func (p *Pace) Paused(now time.Time) { p.due = now.Add(Grace) }

func (p *Pace) Due() time.Time { return p.due }
