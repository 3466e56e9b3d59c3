package wal

import (
	"context"
	"errors"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
)

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
