package wal

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed says that the log was closed.
	ErrClosed = errors.New("the log is closed")
	// ErrTooLarge says that a frame or a record is larger than the log takes.
	ErrTooLarge = errors.New("larger than a frame may be")
	// ErrGone says that the segment of a record was removed.
	ErrGone = errors.New("the segment was removed")
	// ErrInUse says that a segment cannot be removed: it is being written, or a kept snapshot
	// needs it.
	ErrInUse = errors.New("the segment is in use")
)

// FullError says that the disk has no room for more messages. It passes when there is room.
type FullError struct {
	Dir  string
	Free int64 // bytes left on the file system
	Keep int64 // bytes kept for control records and a snapshot
	// Cause is why the last write failed, such as the quota of a user; nil if none did.
	Cause error
}

func (e *FullError) Error() string {
	text := fmt.Sprintf("the file system of %s is full: %d bytes are left, of which %d are kept for settlements: "+
		"receive messages or free space", e.Dir, e.Free, e.Keep)
	if e.Cause != nil {
		text += fmt.Sprintf(" (%v)", e.Cause)
	}
	return text
}

func (e *FullError) Unwrap() error { return e.Cause }

// DamageError says that something synced is not what was written.
type DamageError struct {
	File   string // path of the segment or snapshot
	From   uint32 // first byte concerned
	To     uint32 // first byte behind it, 0 if not known
	Reason string
}

func (e *DamageError) Error() string {
	to := "the end"
	if e.To != 0 {
		to = fmt.Sprint(e.To)
	}
	return fmt.Sprintf("%s is damaged from byte %d to %s: %s", e.File, e.From, to, e.Reason)
}

// VersionError says that a file has a format that this version does not read.
type VersionError struct {
	File    string
	Version uint32
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format %d, this version reads format %d: "+
		"start the version that wrote it, or give the store another directory", e.File, e.Version, formatVersion)
}

// Err is why the log stopped, a *FailedError, or nil.
func (l *Log) Err() error {
	if e := l.failure.Load(); e != nil {
		return e
	}
	return nil
}

// Failed is closed when the log stops because of an error. Nothing may be acknowledged or
// delivered from then on.
func (l *Log) Failed() <-chan struct{} { return l.failed }

func (l *Log) fail(cause error) {
	l.failing.Do(func() {
		l.failure.Store(&FailedError{cause})
		close(l.failed)
		l.o.Logger.Error("log stopped: nothing is acknowledged any more", "dir", l.dir, "err", cause)
	})
}

// FailedError says that the log stopped after an error of the disk: nothing is acknowledged any
// more, because it is not known what is durable.
type FailedError struct{ Cause error }

func (e *FailedError) Error() string {
	return fmt.Sprintf("the log stopped: %v: check the disk and start again", e.Cause)
}

func (e *FailedError) Unwrap() error { return e.Cause }
