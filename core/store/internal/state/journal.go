package state

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Journal stores the changes of calls, so that a Store can be rebuilt. A Store without a Journal
// keeps everything in memory and makes none of these calls.
// A Call gets its messages before its caller locks the partition, gets its effects while the
// partition is locked, and appends them before the partition is unlocked. So the frames of a
// partition are in the order of its changes.
type Journal interface {
	// Begin returns an empty call.
	Begin() Call
	// End returns the position after the last frame that was appended.
	End() Position
	// Wait waits until everything before a position is as durable as the journal promises.
	Wait(ctx context.Context, p Position) error
	// Read returns the message of record r. body is the record of a large body, or zero if r
	// contains the body. The error wraps ErrDamaged if the data differ from what was written.
	Read(r, body Ref) (*core.Message, error)
	// PutAside tells the journal that a message is no longer delivered because its record is
	// damaged.
	PutAside(entity string, sequenceNumber int64, err error)
	// Pin prevents the removal of records until unpin is called, even if their last entry is
	// removed in the meantime. It never waits.
	Pin() (unpin func())
	// Resident asks whether a message of that size may stay in memory in addition to its record.
	// Evicted tells the journal that such a message has left the memory.
	Resident(bytes int) bool
	Evicted(bytes int)
	// Err returns the reason why the journal has stopped storing, or nil.
	Err() error
}

// Call collects what one call adds to a Journal. The journal stores all of it, or nothing.
type Call interface {
	// Messages prepares messages. Copies prepares messages that may have the same body, which is
	// stored once. Room prepares an effect with that number of bytes of text.
	Messages(ctx context.Context, ms []*core.Message) error
	Copies(ctx context.Context, ms []*core.Message) error
	Room(bytes int)
	// Reserve reserves space for what was prepared. After Reserve, Append can fail only if the
	// journal itself fails. If Reserve fails, the call has no effect.
	Reserve(ctx context.Context) error
	// Record adds a prepared message. Messages must be added in the order of their preparation, but
	// some may be left out. It returns the index of the record in the frame, and the place of the
	// body if it has a separate record.
	Record(m *core.Message) (record int32, body Ref)

	// At sets the time of the call. virtual is true if the time is that of a view: see
	// core.Store.WithTime.
	At(now int64, virtual bool)
	Sink
	// IsLarge reports whether the effects so far are enough for a frame.
	IsLarge() bool
	// Append ends the frame, and returns the position after it. It never waits. The call may
	// continue with another frame.
	Append() Position
	// Ref returns the place of a record of the appended frame.
	Ref(record int32) Ref
	// Release returns the space that Reserve reserved. It returns true if the call is empty and can
	// be used again.
	Release() (again bool)
}

// Position is a place in a Journal. Later positions are larger.
type Position uint64

// Ref identifies a record of a Journal. Only the journal knows its meaning; the store compares Refs
// to find the newest.
type Ref struct {
	Position
	Length uint32
}

// begin prepares a call that adds messages. It returns nil without a journal.
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

// publications prepares the records of publications: those of the message if it is scheduled, and
// those of its copies.
func (x *effects) publications(ctx context.Context, group []core.Publication) error {
	for i := range group {
		g := &group[i]
		ms := make([]*core.Message, 0, len(g.Copies)+1)
		if !g.Message.ScheduledEnqueueTime.IsZero() && g.Source.IsZero() {
			ms = append(ms, g.Message) // the call's instant will decide which are stored: the message or its copies
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

// wait waits until everything is durable that the journal had when the call left its partition.
func (t *txn) wait(ctx context.Context) error { return t.Store.wait(ctx, t.end) }

// absent is a delivered message that only the journal has.
type absent struct {
	ref  Ref
	more *extra
	due  time.Time // see entry.due
}

// complete waits until the messages of deliveries are durable, and reads those that are not in
// memory. It leaves out damaged messages. If it fails, it unlocks all others.
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

// read reads a message and applies its later changes.
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
