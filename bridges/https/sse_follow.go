package https

import (
	"context"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

const (
	followPage = 100
	// soonFollow is the first pause between two polls; it doubles up to lateFollow.
	soonFollow = 125 * time.Millisecond
	lateFollow = 2 * time.Second
)

// follower reads the messages of an entity without receiving them, and polls for new ones.
type follower struct {
	*Bridge
	out     *events
	entity  string
	next    position
	flowing []bool // by partition: whether the last poll found messages
	binary  bool
	first   []core.Delivery
}

// follow sends the messages of an entity from a position on, and waits for new ones. It polls,
// because the broker announces new messages only to receivers.
func (b *Bridge) follow(ctx context.Context, out *events, q streamQuery) error {
	f, err := b.newFollower(ctx, out, q)
	if err != nil {
		return err
	}
	if err := out.begin(); err != nil {
		return err
	}
	for pause := soonFollow; ; {
		found, err := f.look(ctx)
		if err != nil {
			return err
		}
		if pause = min(2*pause, lateFollow); found {
			pause = soonFollow
		}
		if _, err := await(ctx, out, time.After(pause)); err != nil {
			return err
		}
	}
}

func (b *Bridge) newFollower(ctx context.Context, out *events, q streamQuery) (*follower, error) {
	// Check the rights first: clients without them must not learn which entities exist.
	if err := out.allowed(); err != nil {
		return nil, err
	}
	ent, err := b.front.Resolve(ctx, out.id, out.address)
	if err != nil {
		return nil, err
	}
	n := max(ent.Partitions, 1)
	f := &follower{Bridge: b, out: out, entity: ent.ID, flowing: make([]bool, n), binary: q.binary}
	switch {
	case q.after != "":
		f.next, err = parsePosition("Last-Event-ID", q.after, n, 1)
	case q.from == "new":
		f.next = make(position, n)
		err = f.skip(ctx)
	default:
		f.next, err = parsePosition("from", q.from, n, 0)
	}
	if err != nil {
		return nil, err
	}
	if out.memory.Available(int64(out.size)) > 0 {
		f.first, err = f.peek(ctx, 0, 1) // while no event is written, an error can still be the response
	}
	return f, err
}

// skip sets the position to the end of each partition. It finds the end by a binary search.
func (f *follower) skip(ctx context.Context) error {
	for i := range f.next {
		for bit := bits.Len64(uint64(core.NumberMask)) - 1; bit >= 0; bit-- {
			f.next[i] |= 1 << bit
			ds, err := f.peek(ctx, i, 1)
			if err != nil {
				return err
			}
			if len(ds) == 0 {
				f.next[i] &^= 1 << bit
			}
		}
		if f.next[i] > 0 {
			f.next[i]++
		}
	}
	return nil
}

func (f *follower) peek(ctx context.Context, partition, n int) ([]core.Delivery, error) {
	ds, err := f.front.Peek(ctx, f.out.id, f.out.address, nil, core.SequenceNumber(uint16(partition), f.next[partition]), n)
	for i := range ds {
		if at, _ := core.SplitSequenceNumber(ds[i].SequenceNumber); int(at) != partition {
			return ds[:i], err
		}
	}
	return ds, err
}

func (f *follower) look(ctx context.Context) (found bool, err error) {
	ent, err := f.front.Resolve(ctx, f.out.id, f.out.address)
	if err != nil {
		return false, err
	}
	if ent.ID != f.entity {
		return false, core.Refuse(core.NotFound, "The entity '%s' was deleted and created again: open a new stream.", ent.Name)
	}
	if first := f.first; len(first) > 0 {
		f.first = nil
		if found = true; f.send(first) != nil {
			return found, errGone
		}
	}
	for i := range f.next {
		for {
			if err := f.out.ended(ctx); err != nil {
				return found, err
			}
			if err := f.out.room(ctx); err != nil {
				return found, err
			}
			page := 1 // a poll usually finds nothing
			if f.flowing[i] {
				page = followPage
			}
			ds, err := f.peek(ctx, i, page)
			if err != nil {
				return found, err
			}
			f.flowing[i] = len(ds) > 0
			if len(ds) == 0 {
				break
			}
			if found = true; f.send(ds) != nil {
				return found, errGone
			}
		}
	}
	return found, nil
}

func (f *follower) send(ds []core.Delivery) error {
	f.out.got(ds...)
	for at := range ds {
		d := &ds[at]
		i, n := core.SplitSequenceNumber(d.SequenceNumber)
		f.next[i] = n + 1
		f.out.message(f.next.String(), d, func(w codec.Writer) { frame.WritePeeked(w, *d, f.binary) })
		if len(f.out.buffer) >= eventsPage {
			if err := f.out.flush(); err != nil {
				return err
			}
		}
	}
	return f.out.flush()
}

// position holds, for each partition of an entity, the sequence number at which a reader continues.
// As text, it is the last sequence number that the reader got or, if there are several partitions,
// one for each partition, separated by commas.
type position []int64

// parsePosition parses text. If beyond is 0, the position begins at its numbers; if 1, after them.
func parsePosition(name, text string, partitions int, beyond int64) (position, error) {
	p := make(position, partitions)
	if text == "" {
		return p, nil
	}
	for field := range strings.SplitSeq(text, ",") {
		seq, err := strconv.ParseInt(field, 10, 64)
		if err != nil || seq < 0 {
			return nil, core.Refuse(core.InvalidArgument, "%s is %.60q: it must be a sequence number, or one sequence number for each partition, separated by commas.", name, text)
		}
		index, n := core.SplitSequenceNumber(seq)
		if int(index) >= partitions {
			return nil, core.Refuse(core.OutOfRange, "%s is %.60q: the sequence number %d belongs to partition %d (counted from 0), but the number of partitions of the entity is %d.", name, text, seq, index, partitions)
		}
		p[index] = min(n+beyond, core.NumberMask)
	}
	return p, nil
}

func (p position) String() string {
	var b []byte
	for i, next := range p {
		if next == 0 {
			continue
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, core.SequenceNumber(uint16(i), next-1), 10)
	}
	return string(b)
}
