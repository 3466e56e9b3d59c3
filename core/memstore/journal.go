package memstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
)

// Journal keeps what calls change, so that a Store can be made again from it. A Store without one
// keeps everything in memory only, and does nothing of what follows.
//
// A call encodes its messages into records of a Frame before it takes the partition's mutex, and
// its effects (see effects.go) while it holds it; it appends the frame before it gives the mutex
// back. So the order of the frames of a partition is the order of its changes.
type Journal interface {
	// Begin returns an empty frame. It ends with its Release.
	Begin() Frame
	// End is the position behind the last frame that was appended.
	End() Position
	// Wait waits until everything before a position is as durable as the journal promises.
	Wait(ctx context.Context, p Position) error
	// Read returns the parts of a record, which may not be changed. The error wraps ErrDamaged if
	// the record is not what was written.
	Read(r Ref) (head, body []byte, err error)
	// PutAside says that a message is not delivered any more, because its record is damaged.
	PutAside(entity string, sequenceNumber int64, err error)
	// Pin keeps records from being removed until unpin is called, those whose last entry goes
	// meanwhile too. It never waits.
	Pin() (unpin func())
	// Moved says that an entry which is new names a record of an earlier frame.
	Moved(r Ref)
	// Resident asks whether a message of so many bytes may stay in memory beside its record. Evicted
	// is the opposite of an answer that it may.
	Resident(bytes int) bool
	Evicted(bytes int)
	// Err is why the journal keeps nothing any more, or nil.
	Err() error
}

// Frame is what one call adds to a Journal: all of it, or nothing.
type Frame interface {
	// Add prepares a record, and returns its place among those of the frame and what it takes there.
	Add(head, body []byte) (i int, footprint int64)
	// AddBody writes a large body at once, apart from the frame.
	AddBody(ctx context.Context, body []byte) (Ref, error)
	// Reserve makes room for what was added, and so many bytes of effects. Append fails then only
	// with the journal itself. Errors are those of a call that has done nothing.
	Reserve(ctx context.Context, effects int) error
	// Use puts n prepared records, from the i-th on, into the frame, one behind the other, and
	// returns the place of the first in it.
	Use(i, n int) int
	// Append ends the frame, and returns the position behind it. It never waits. More frames may
	// follow, each with its own effects.
	Append(effects []byte) Position
	// Ref is where the i-th record of the frame lies, once it was appended.
	Ref(i int) Ref
	// Release gives back what Reserve took.
	Release()
}

// Position is a place in a Journal. Later ones are larger.
type Position uint64

// Ref names a record of a Journal.
type Ref struct {
	Position
	Length uint32
}

// LargeBody is the size of a body from which on it is written apart from the frame.
const LargeBody = 1 << 20

// prepared is a message as it was encoded before the partition's mutex was taken.
type prepared struct {
	m      *core.Message
	leader int // place in effects.prepared of the first of those that share its record's group
	group  int // of a leader: how many records
	record int // in the frame as prepared
	used   int // of a leader: the place in the frame of its record, -1 as long as it is not used
	body   Ref // where a large body lies; zero: in the record
}

// begin makes the effects of a call that adds messages: nil without a journal.
func (s *Store) begin(ctx context.Context, prepare func(x *effects) error) (*effects, error) {
	if s.journal == nil {
		return nil, nil
	}
	x := newEffects(s.journal)
	err := s.journal.Err()
	if err == nil {
		err = prepare(x)
	}
	if err == nil {
		err = x.frame.Reserve(ctx, x.estimate)
	}
	if err != nil {
		x.release()
		return nil, core.CertainlyNotDone(err)
	}
	return x, nil
}

// messages prepares the records of messages.
func (x *effects) messages(ctx context.Context, ms []*core.Message) error {
	for _, m := range ms {
		if err := x.copies(ctx, m); err != nil {
			return err
		}
	}
	return nil
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
		if err := x.copies(ctx, ms...); err != nil {
			return err
		}
	}
	return nil
}

// work prepares the records of what a transaction stores.
func (x *effects) work(ctx context.Context, w *core.Work) error {
	err := x.messages(ctx, w.Messages)
	switch {
	case err != nil:
	case w.Reserve.IsZero():
		err = x.publications(ctx, w.Publications)
	default:
		for i := range w.Publications {
			err = errors.Join(err, x.copies(ctx, w.Publications[i].Message))
		}
	}
	for _, s := range w.States {
		x.estimate += putEstimate + len(s.State)
	}
	err = errors.Join(err, x.messages(ctx, w.Transfers))
	for i := range w.Effects {
		err = errors.Join(err, x.messages(ctx, w.Effects[i].DeadLetters), x.messages(ctx, w.Effects[i].Transfers))
	}
	return err
}

// copies prepares the records of messages that have the same body: it is written once.
func (x *effects) copies(ctx context.Context, ms ...*core.Message) error {
	leader := len(x.prepared)
	var shared Ref       // of a large body
	var behind int64     // bytes from the leader's record to the next one
	var leaderLength int // of the leader's head and body
	for k, m := range ms {
		p := prepared{m: m, leader: leader, used: -1}
		body := m.Body.Bytes
		if len(body) >= LargeBody {
			if k == 0 || !sameBytes(body, ms[0].Body.Bytes) {
				ref, err := x.frame.AddBody(ctx, body)
				if err != nil {
					return err
				}
				if k == 0 {
					shared = ref
				}
				p.body = ref
			} else {
				p.body = shared
			}
			body = nil
		}
		if cap(x.heads)-len(x.heads) < fewBytes && len(x.heads) > 0 {
			x.heads = make([]byte, 0, min(2*cap(x.heads), 64<<10)) // the journal keeps the heads before
		}
		from := len(x.heads)
		if k > 0 && len(body) > 0 && sameBytes(body, ms[0].Body.Bytes) {
			x.heads = appendHead(x.heads, m, uint64(behind), uint64(leaderLength))
			body = nil
		} else {
			x.heads = appendHead(x.heads, m, 0, 0)
		}
		head := x.heads[from:len(x.heads):len(x.heads)]
		if k == 0 {
			leaderLength = len(head) + len(body)
		}
		i, footprint := x.frame.Add(head, body)
		p.record = i
		behind += footprint
		x.prepared = append(x.prepared, p)
		x.estimate += putEstimate + len(m.SessionID) + len(m.MessageID.Raw())*2
	}
	if len(ms) > 0 {
		x.prepared[leader].group = len(ms)
	}
	return nil
}

// fewBytes are less than most heads take.
const fewBytes = 64

func sameBytes(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }

// use puts the record of a message into the frame and returns its place there. Messages are used
// in the order in which they were prepared, perhaps not all.
func (x *effects) use(m *core.Message) (record int, body Ref) {
	for range x.prepared {
		if x.cursor >= len(x.prepared) {
			x.cursor = 0
		}
		i := x.cursor
		x.cursor++
		if p := &x.prepared[i]; p.m == m {
			leader := &x.prepared[p.leader]
			if leader.used < 0 {
				leader.used = x.frame.Use(leader.record, leader.group)
			}
			return leader.used + p.record - leader.record, p.body
		}
	}
	panic("memstore: a message was not prepared for the journal")
}

// wait waits until what was there when a call left its partition is durable.
func (t *txn) wait(ctx context.Context) error {
	if t.Store.journal == nil {
		return nil
	}
	return t.Store.wait(ctx, t.end)
}

func (s *Store) wait(ctx context.Context, p Position) error {
	if s.journal == nil {
		return nil
	}
	return s.journal.Wait(ctx, p)
}

// waitAll waits until what was there until now is durable.
func (s *Store) waitAll(ctx context.Context) error {
	if s.journal == nil {
		return nil
	}
	return s.journal.Wait(ctx, s.journal.End())
}

// stopped is why the journal keeps nothing any more. Locks that are given and extended need not be
// durable, so such calls do not wait; but they fail with the journal. So do calls that only look, and
// refusals: what is in memory by then may never have been kept.
func (s *Store) stopped() error {
	if s.journal == nil {
		return nil
	}
	return s.journal.Err()
}

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

// read makes a message of its record.
func (s *Store) read(r Ref, more *extra) (*core.Message, error) {
	head, body, err := s.journal.Read(r)
	if err != nil {
		return nil, err
	}
	m, behind, length, err := decodeHead(head)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	switch {
	case more != nil && more.body.Length > 0:
		_, body, err = s.journal.Read(more.body)
	case behind > 0:
		_, body, err = s.journal.Read(Ref{r.Position - Position(behind), uint32(length)})
	}
	if err != nil {
		return nil, err
	}
	m.Body.Bytes = body
	if more != nil && !more.overlay.IsEmpty() {
		m.Properties = m.Properties.Merge(more.overlay)
	}
	return m, nil
}
