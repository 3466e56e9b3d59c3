package wal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
)

// A batch keeps its records for a while after it was written, so that Read finds them in memory.
type batch struct {
	end     Position
	frames  []frame
	effects []byte
	records []Record
	bytes   int
}

type frame struct {
	at                 Position
	kind               kind
	effects, effectsTo int
	records, recordsTo int
}

// Append adds a frame to the end of the log. It returns where the frame begins and ends, and sets
// each record's Ref. It never waits and never uses the disk, so the caller may hold a mutex. The
// order of the calls is the order of the log. Append copies the effects, but not the contents of
// the records, which must not change any more.
// The frame must not be larger than Options.MaxFrame, which Reserve checks. After the log has
// failed or was closed, Append stores nothing, and Wait returns the reason.
func (l *Log) Append(effects []byte, records []Record) (at, end Position) {
	size := FrameSize(len(effects), records)
	if size > l.o.MaxFrame {
		panic(fmt.Sprintf("wal: a frame has %d bytes, but at most %d are allowed: Reserve must refuse it", size, l.o.MaxFrame))
	}
	l.mu.Lock()
	b := l.gather
	idle := len(b.frames) == 0
	if off := int64(l.next.Offset()); off+int64(size) > int64(l.o.SegmentSize) && off > segmentHeaderSize {
		l.roll(b)
	}
	at = l.next
	place := at + frameHeaderSize + Position(align(len(effects)))
	for i := range records {
		records[i].Ref.Position = place
		place += Position(records[i].size())
	}
	end = at + Position(size)
	if l.closed.Load() || l.failure.Load() != nil {
		l.mu.Unlock()
		return at, end
	}
	l.add(b, kindEffects, effects, records, size)
	large := b.bytes >= writeSize
	l.mu.Unlock()
	switch {
	case l.o.Sync == Always && idle || large:
		l.wake.Set()
	case idle && !l.armed.Swap(true):
		l.unled.Reset(unledDelay)
	}
	return at, end
}

// Unless Sync is Always, a frame that no caller of Wait waits for is written after unledDelay.
const unledDelay = 2 * time.Millisecond

// l.mu is held.
func (l *Log) roll(b *batch) {
	l.add(b, kindSeal, nil, nil, frameHeaderSize)
	l.ids++
	l.next = At(l.ids, segmentHeaderSize)
}

// add adds a frame of the given size to b. l.mu is held.
func (l *Log) add(b *batch, k kind, effects []byte, records []Record, size int) {
	f := frame{at: l.next, kind: k, effects: len(b.effects), records: len(b.records)}
	b.effects = append(b.effects, effects...)
	b.records = append(b.records, records...)
	f.effectsTo, f.recordsTo = len(b.effects), len(b.records)
	b.frames = append(b.frames, f)
	b.bytes += size
	l.next += Position(size)
	b.end = l.next
	l.end.Store(uint64(l.next))
	l.backlog.Add(int64(size))
}

// The caller must call Release after Append.
type Reservation struct {
	l *Log
	n int64
}

// Reserve reserves space for a frame of n bytes (FrameSize) that adds messages. It waits for memory
// while too many bytes are unwritten, but not for disk space. Frames that receive and settle need
// no reservation: they may use the disk space that is kept free. The error is a *FullError,
// ErrTooLarge, ErrClosed, a *FailedError, or the context's.
func (l *Log) Reserve(ctx context.Context, n int) (Reservation, error) {
	if n > l.o.MaxFrame {
		return Reservation{}, ErrTooLarge
	}
	if err := l.Stopped(); err != nil {
		return Reservation{}, err
	}
	if err := l.takeSpace(int64(n)); err != nil {
		return Reservation{}, err
	}
	if l.takeRoom(int64(n)) {
		return Reservation{l, int64(n)}, nil
	}
	for {
		freed := l.room.wait()
		if l.takeRoom(int64(n)) {
			l.room.leave()
			return Reservation{l, int64(n)}, nil
		}
		err := error(nil)
		select {
		case <-freed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-l.failed:
			err = l.Err()
		case <-l.closing:
			err = ErrClosed
		}
		l.room.leave()
		if err != nil {
			return Reservation{}, err
		}
	}
}

// takeRoom takes n bytes of Options.Backlog, or returns false if they are not free. A frame larger
// than the whole backlog needs an empty one.
func (l *Log) takeRoom(n int64) bool {
	for {
		used := l.backlog.Load()
		if used > 0 && used+n > int64(l.o.Backlog) {
			return false
		}
		if l.backlog.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

func (l *Log) giveRoom(n int64) {
	l.backlog.Add(-n)
	l.room.freed()
}

func (r *Reservation) Release() {
	if r.l != nil {
		r.l.giveRoom(r.n)
		r.l = nil
	}
}

// Stopped returns nil while the log works, a *FailedError after a failure, and ErrClosed after
// Close. A stopped log stores no further frames.
func (l *Log) Stopped() error {
	if err := l.Err(); err != nil {
		return err
	}
	select {
	case <-l.closing:
		return ErrClosed
	default:
		return nil
	}
}

type room struct {
	waiting atomic.Int32
	mu      sync.Mutex
	ch      chan struct{}
}

// wait returns a channel that is closed when space becomes free. Call leave afterwards.
func (r *room) wait() <-chan struct{} {
	r.waiting.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ch == nil {
		r.ch = make(chan struct{})
	}
	return r.ch
}

func (r *room) leave() { r.waiting.Add(-1) }

func (r *room) freed() {
	if r.waiting.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ch != nil {
		close(r.ch)
		r.ch = nil
	}
}

const spaceInterval = 100 * time.Millisecond

type space struct {
	full atomic.Pointer[error] // error of the last write, if the disk was full
	due  atomic.Int64          // when to ask the file system again, in ns since the Unix epoch
	left atomic.Int64          // free bytes that the file system last reported, minus those taken since
}

func (l *Log) takeSpace(n int64) error {
	s := &l.space
	now := time.Now().UnixNano()
	if due := s.due.Load(); now >= due && s.due.CompareAndSwap(due, now+int64(spaceInterval)) {
		l.lookForSpace()
	}
	keep := l.keep.Load()
	if cause := s.full.Load(); cause != nil {
		return &FullError{l.dir, max(s.left.Load(), 0), keep, *cause}
	}
	if s.left.Add(-n) >= keep {
		return nil
	}
	return &FullError{l.dir, max(s.left.Add(n), 0), keep, nil}
}

func (l *Log) lookForSpace() {
	left, err := l.fs.Free(l.dir)
	if err != nil {
		l.o.Logger.Warn("cannot determine the free space of the data directory", "dir", l.dir, "err", err)
		left = 1 << 62
	}
	l.space.left.Store(left - l.backlog.Load())
}

// Full returns the error with which Reserve would refuse any message now, or nil.
func (l *Log) Full() error {
	return l.takeSpace(0)
}

func (l *Log) Space() (left, keep int64) {
	_ = l.takeSpace(0) // may ask the file system
	return max(l.space.left.Load(), 0), l.keep.Load()
}

func (l *Log) SetKeep(bytes int64) { l.keep.Store(bytes) }

// WriteBody writes a record with a large body to a new segment and syncs this segment, so that
// frames and their syncs need not wait for it. Then the caller may append a frame that refers to
// rec.Ref. When nothing refers to the segment any more, the caller must Remove it, even if a
// restart has lost the frame (Segments lists it). The error is a *FullError, ErrTooLarge, or a disk
// error that concerns only this record.
func (l *Log) WriteBody(ctx context.Context, rec *Record) error {
	size := segmentHeaderSize + rec.size()
	if size > maxSegment {
		return ErrTooLarge
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := l.Stopped(); err != nil {
		return err
	}
	if err := l.takeSpace(int64(size)); err != nil {
		return err
	}
	l.mu.Lock()
	l.ids++
	id := l.ids
	l.mu.Unlock()

	s := &segment{
		segmentHeader: segmentHeader{body: true, id: id, log: l.id, made: time.Now().UnixMilli()},
		end:           uint32(size), sealed: true,
	}
	name := l.path(s.name())
	err := l.replace(name, func(file fsys.File) error {
		b := make([]byte, segmentHeaderSize+recordHeaderSize, segmentHeaderSize+recordHeaderSize+len(rec.Head))
		s.put(b)
		rec.putHeader(b[segmentHeaderSize:])
		b = append(b, rec.Head...)
		_, err := file.WriteAt(b, 0)
		if err == nil {
			_, err = file.WriteAt(rec.Body, int64(len(b)))
		}
		if err == nil {
			err = file.Truncate(int64(s.end))
		}
		return err
	}, func() error { return nil })
	if err != nil {
		err = errors.Join(err, ignoreMissing(l.fs.Remove(name)))
	}
	if fsys.Full(err) {
		free, _ := l.fs.Free(l.dir)
		return &FullError{l.dir, free, l.keep.Load(), err}
	}
	if err == nil {
		l.segments.add(s)
		rec.Ref.Position = At(id, segmentHeaderSize)
	}
	return err
}
