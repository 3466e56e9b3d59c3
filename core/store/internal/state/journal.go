package state

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Journal stores the changes that calls make, so that a Store can be rebuilt. A Store without a
// Journal keeps everything in memory.
// A Call prepares its messages before the partition is locked. It collects its effects and appends
// them while the partition is locked. So the frames of a partition are in the order of its changes.
type Journal interface {
	Begin() Call
	End() Position
	Wait(ctx context.Context, p Position) error
	// Read returns the message of record r. body is the separate record of a large body, or zero.
	// The error wraps ErrDamaged if the data differ from what was written.
	Read(r, body Ref) (*core.Message, error)
	PutAside(entity string, sequenceNumber int64, err error)
	// Pin prevents the removal of records until unpin is called, even of records whose messages are
	// removed meanwhile. It never waits.
	Pin() (unpin func())
	// Resident asks whether a message of that size may stay in memory in addition to its record.
	// The store calls Evicted when such a message leaves the memory.
	Resident(bytes int) bool
	Evicted(bytes int)
	Err() error
}

// Call collects what one call adds to a Journal. The journal stores all of it, or nothing.
type Call interface {
	// Messages prepares messages. Copies prepares messages that may have the same body, and stores
	// that body once. Room prepares an effect with that number of bytes of text.
	Messages(ctx context.Context, ms []*core.Message) error
	Copies(ctx context.Context, ms []*core.Message) error
	Room(bytes int)
	// Reserve reserves space for everything that was prepared. If it fails, the call has no effect.
	// After it, Append fails only if the journal itself fails.
	Reserve(ctx context.Context) error
	// Record adds a prepared message. Messages must be added in the order of their preparation, but
	// some may be left out. record is the index of the message's record in the frame, and body
	// identifies the separate record of a large body.
	Record(m *core.Message) (record int32, body Ref)

	// At sets the time of the call. virtual is true if now is the time of a view with its own clock
	// (see core.Store.WithTime).
	At(now int64, virtual bool)
	Sink
	// IsLarge reports whether the collected effects are enough for one frame.
	IsLarge() bool
	// Append ends the frame, and returns the position after it. It never waits. Effects that are
	// added after it start another frame.
	Append() Position
	Ref(record int32) Ref
	// Release returns unused reserved space. The Call must not be used after it.
	Release()
}

type Position uint64

// Ref identifies a record for the journal. The store compares Refs only to find the newest.
type Ref struct {
	Position
	Length uint32
}

// Without a journal, begin returns nil.
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

func (x *effects) publications(ctx context.Context, group []core.Publication) error {
	for i := range group {
		g := &group[i]
		ms := make([]*core.Message, 0, len(g.Copies)+1)
		if !g.Message.ScheduledEnqueueTime.IsZero() && g.Source.IsZero() {
			ms = append(ms, g.Message) // only the time of the call decides whether this message or its copies are stored
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

func (t *txn) wait(ctx context.Context) error { return t.Store.wait(ctx, t.end) }

type absent struct {
	ref  Ref
	more *extra
	due  time.Time // see entry.due
}

// complete waits until the messages of ds are durable, and reads those that are not in memory. It
// leaves out damaged messages. If it fails, it unlocks all others.
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
				ds[i].SetDue(x.due)
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

func (t *txn) unpin() {
	if t.pinned != nil {
		t.pinned()
		t.pinned = nil
	}
}

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
