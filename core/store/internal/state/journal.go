package state

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Journal stores the changes of calls, so that a Store can be rebuilt from it. A Store without a
// Journal keeps everything in memory only, and makes none of the calls described here.
//
// A Call gets its messages before it locks the partition's mutex, and its effects while it holds
// the mutex. It appends the effects before it releases the mutex. The frames of a partition are
// therefore in the order of its changes.
type Journal interface {
	// Begin returns an empty call.
	Begin() Call
	// End returns the position after the last frame that was appended.
	End() Position
	// Wait waits until everything before a position is as durable as the journal promises.
	Wait(ctx context.Context, p Position) error
	// Read returns the message of a record. body is the place of a large body, or zero if the
	// record contains the body. The error wraps ErrDamaged if the data differ from what was
	// written.
	Read(r, body Ref) (*core.Message, error)
	// PutAside reports that a message is no longer delivered because its record is damaged.
	PutAside(entity string, sequenceNumber int64, err error)
	// Pin keeps records from being removed until unpin is called, even those whose last entry is
	// removed in the meantime. It never waits.
	Pin() (unpin func())
	// Resident asks whether a message of n bytes may stay in memory in addition to its record.
	// Evicted cancels a positive answer.
	Resident(bytes int) bool
	Evicted(bytes int)
	// Err returns the reason why the journal no longer stores anything, or nil.
	Err() error
}

// Call collects the additions of one call to a Journal: all of them, or none.
type Call interface {
	// Messages prepares messages. Copies prepares messages that may have the same body, which is
	// then stored once. Room prepares an effect with n bytes of text.
	Messages(ctx context.Context, ms []*core.Message) error
	Copies(ctx context.Context, ms []*core.Message) error
	Room(bytes int)
	// Reserve reserves space for the prepared messages. After Reserve, Append can fail only if the
	// journal itself fails. If Reserve fails, the call has no effect.
	Reserve(ctx context.Context) error
	// Record takes a prepared message. Messages must be taken in the order of their preparation,
	// but some may be left out. It returns the place of the record in the frame, and the place of
	// the body if it is stored separately.
	Record(m *core.Message) (record int32, body Ref)

	// At sets the time of the call, and whether this is the time of a view.
	At(now int64, virtual bool)
	Sink
	// IsLarge reports whether the effects so far should become a frame.
	IsLarge() bool
	// Append ends the frame, and returns the position after it. It never waits. More frames may
	// follow, each with its own effects.
	Append() Position
	// Ref returns the place of a record of the frame, after the frame was appended.
	Ref(record int32) Ref
	// Release returns the space that Reserve reserved. It returns true if the call is now empty and
	// may be used again.
	Release() (again bool)
}

// Position is a place in a Journal. Later positions are larger.
type Position uint64

// Ref identifies a record of a Journal. Only the journal knows its meaning. The store only compares
// which of several records is the newest.
type Ref struct {
	Position
	Length uint32
}

// begin collects the effects of a call that adds messages. It returns nil without a journal.
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

// publications prepares the records of publications: the message itself if it is scheduled,
// otherwise its copies.
func (x *effects) publications(ctx context.Context, group []core.Publication) error {
	for i := range group {
		g := &group[i]
		ms := make([]*core.Message, 0, len(g.Copies)+1)
		if !g.Message.ScheduledEnqueueTime.IsZero() && g.Source.IsZero() {
			ms = append(ms, g.Message) // the store's clock will decide whether the message is kept, or its copies
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

// wait waits until everything that was in the journal when the call left its partition is durable.
func (t *txn) wait(ctx context.Context) error { return t.Store.wait(ctx, t.end) }

// absent is a message in a delivery that is not in memory.
type absent struct {
	ref  Ref
	more *extra
	due  time.Time // zero if it is not scheduled
}

// complete waits until the messages of deliveries are durable, and reads the absent ones. It leaves
// out damaged ones. If it fails, it ends the locks of the others.
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

// unpin releases the records that delivery has pinned.
func (t *txn) unpin() {
	if t.pinned != nil {
		t.pinned()
		t.pinned = nil
	}
}

// read returns the message of a record, including later changes.
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
