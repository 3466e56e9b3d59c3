package state

import (
	"cmp"
	"context"
	"errors"

	"github.com/crosstown-mq/crosstown/core"
)

// Journal keeps what calls change, so that a Store can be made again from it. A Store without one
// keeps everything in memory only, and does nothing of what follows.
//
// A Call is given its messages before it takes the partition's mutex, and its effects while it holds
// it; they are appended before it gives the mutex back. So the order of the frames of a partition is
// the order of its changes.
type Journal interface {
	// Begin returns an empty call.
	Begin() Call
	// End is the position behind the last frame that was appended.
	End() Position
	// Wait waits until everything before a position is as durable as the journal promises.
	Wait(ctx context.Context, p Position) error
	// Read returns the message of a record, whose large body lies apart unless that is zero. The error
	// wraps ErrDamaged if it is not what was written.
	Read(r, body Ref) (*core.Message, error)
	// PutAside says that a message is not delivered any more, because its record is damaged.
	PutAside(entity string, sequenceNumber int64, err error)
	// Pin keeps records from being removed until unpin is called, those whose last entry goes
	// meanwhile too. It never waits.
	Pin() (unpin func())
	// Resident asks whether a message of n bytes may stay in memory besides its record. Evicted
	// is the opposite of an answer that it may.
	Resident(bytes int) bool
	Evicted(bytes int)
	// Err is why the journal keeps nothing any more, or nil.
	Err() error
}

// Call is what one call adds to a Journal: all of it, or nothing.
type Call interface {
	// Messages prepares messages, and Copies some that may have the same body: it is kept once. Room
	// prepares an effect that has n bytes of text.
	Messages(ctx context.Context, ms []*core.Message) error
	Copies(ctx context.Context, ms []*core.Message) error
	Room(bytes int)
	// Reserve makes room for what was prepared. Append fails then only with the journal itself. Errors
	// are those of a call that has done nothing.
	Reserve(ctx context.Context) error
	// Record takes a message that was prepared: they are taken in the order of their preparation,
	// perhaps not all. It returns the place of its record in the frame, and where its body is that
	// lies apart.
	Record(m *core.Message) (record int32, body Ref)

	// At says when the call happens, and whether in the time of a view.
	At(now int64, virtual bool)
	Sink
	// IsLarge reports whether the effects so far should become a frame.
	IsLarge() bool
	// Append ends the frame, and returns the position behind it. It never waits. More frames may
	// follow, each with its own effects.
	Append() Position
	// Ref is where a record of the frame lies, once it was appended.
	Ref(record int32) Ref
	// Release returns what Reserve took. It returns true if the call is empty now and may be used again.
	Release() (again bool)
}

// Position is a place in a Journal. Later ones are larger.
type Position uint64

// Ref names a record of a Journal, which alone knows what that is. The store asks for no more than the
// newest of some.
type Ref struct {
	Position
	Length uint32
}

// begin makes the effects of a call that adds messages: nil without a journal.
func (s *Store) begin(ctx context.Context, prepare func(x *effects) error) (*effects, error) {
	if s.journal == nil {
		return nil, nil
	}
	x := s.newEffects()
	err := s.journal.Err()
	if err == nil {
		err = prepare(x)
	}
	if err == nil {
		err = x.Reserve(ctx)
	}
	if err != nil {
		x.release()
		return nil, core.CertainlyNotDone(err)
	}
	return x, nil
}

// publications prepares the records of what topics publish: a scheduled message itself, else the
// copies of it.
func (x *effects) publications(ctx context.Context, group []core.Publication) error {
	for i := range group {
		g := &group[i]
		ms := make([]*core.Message, 0, len(g.Copies)+1)
		if !g.Message.ScheduledEnqueueTime.IsZero() && g.Source.IsZero() {
			ms = append(ms, g.Message) // the store's clock decides whether it is kept, or its copies
		}
		for k := range g.Copies {
			ms = append(ms, g.Copies[k].Message)
		}
		if err := x.Copies(ctx, ms); err != nil {
			return err
		}
	}
	return nil
}

// work prepares the records of what a transaction stores.
func (x *effects) work(ctx context.Context, w *core.Work) error {
	err := x.Messages(ctx, w.Messages)
	switch {
	case err != nil:
	case w.Reserve.IsZero():
		err = x.publications(ctx, w.Publications)
	default:
		for i := range w.Publications {
			err = errors.Join(err, x.Messages(ctx, []*core.Message{w.Publications[i].Message}))
		}
	}
	for _, s := range w.States {
		x.Room(len(s.State))
	}
	err = errors.Join(err, x.Messages(ctx, w.Transfers))
	for i := range w.Effects {
		err = errors.Join(err, x.Messages(ctx, w.Effects[i].DeadLetters), x.Messages(ctx, w.Effects[i].Transfers))
	}
	return err
}

// wait waits until what was there when a call left its partition is durable.
func (t *txn) wait(ctx context.Context) error { return t.Store.wait(ctx, t.end) }

// absent is a message of a delivery that is not in memory.
type absent struct {
	ref  Ref
	more *extra
}

// complete waits until the messages of deliveries are durable, and reads those that are absent. It
// leaves out those that are damaged. If it fails, the locks of the others end.
func (t *txn) complete(ctx context.Context, ds []core.Delivery) ([]core.Delivery, error) {
	j := t.Store.journal
	if j == nil || len(ds) == 0 {
		return ds, t.Store.stopped()
	}
	defer t.unpin()
	err := j.Wait(ctx, t.newest)
	sound := ds[:0]
	var damaged []found
	for i, k := 0, 0; i < len(ds); i++ {
		if ds[i].Message == nil && err == nil {
			x := t.absent[k]
			k++
			var m *core.Message
			if m, err = t.Store.read(x.ref, x.more); errors.Is(err, ErrDamaged) {
				damaged, err = append(damaged, found{ds[i].SequenceNumber, x.ref, err}), nil
				continue
			}
			if err == nil {
				ds[i].Message = m
				ds[i].DeadLetterSource = transit(m).DeadLetterSource
			}
		}
		sound = append(sound, ds[i])
	}
	if len(damaged) > 0 {
		t.putAside(damaged)
	}
	if err = cmp.Or(err, t.Store.stopped()); err != nil {
		t.giveBack(sound)
	}
	return sound, err
}

// unpin ends what delivery has pinned.
func (t *txn) unpin() {
	if t.pinned != nil {
		t.pinned()
		t.pinned = nil
	}
}

// read returns the message of a record, with what came later.
func (s *Store) read(r Ref, more *extra) (*core.Message, error) {
	if more == nil {
		return s.journal.Read(r, Ref{})
	}
	m, err := s.journal.Read(r, more.body)
	if err == nil && !more.overlay.IsEmpty() {
		m.Properties = m.Properties.Merge(more.overlay)
	}
	return m, err
}
