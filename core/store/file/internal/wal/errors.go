package wal

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed says that the log was closed.
	ErrClosed = errors.New("the log is closed")
	// ErrTooLarge says that a frame or a record is larger than the log takes.
	ErrTooLarge = errors.New("the operation does not fit into a frame of the log")
	// ErrGone says that the segment of a record was removed.
	ErrGone = errors.New("the segment was removed")
	// ErrInUse says that a segment cannot be removed because it is still being written, or because
	// a kept snapshot needs it.
	ErrInUse = errors.New("a backup or another operation still uses the segment")
)

// FullError says that the disk has no room for more messages. The error no longer occurs once there is room.
type FullError struct {
	Dir  string
	Free int64 // bytes left on the file system
	Keep int64 // bytes kept for control records and a snapshot
	// Cause is why the last write failed, such as a user's quota, or nil if it did not fail.
	Cause error
}

func (e *FullError) Error() string {
	text := fmt.Sprintf("the file system of %s is full: %d bytes are free, of which %d are reserved for settlements: "+
		"receive messages or free space", e.Dir, e.Free, e.Keep)
	if e.Cause != nil {
		text += fmt.Sprintf(" (%v)", e.Cause)
	}
	return text
}

func (e *FullError) Unwrap() error { return e.Cause }

// DamageError says that synced data differ from what was written.
type DamageError struct {
	File   string // path of the segment or snapshot
	From   uint32 // first byte concerned
	To     uint32 // end of the damage, 0 if unknown
	Reason string
}

func (e *DamageError) Error() string {
	to := "the end"
	if e.To != 0 {
		to = fmt.Sprint(e.To)
	}
	return fmt.Sprintf("%s is damaged from byte %d to %s: %s", e.File, e.From, to, e.Reason)
}

// VersionError says that a file has a format that this version cannot read.
type VersionError struct {
	File    string
	Version uint32
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format %d, but this version reads format %d: "+
		"start the version that wrote it, or give the store another directory", e.File, e.Version, formatVersion)
}

// Err returns why the log stopped, a *FailedError, or nil.
func (l *Log) Err() error {
	if e := l.failure.Load(); e != nil {
		return e
	}
	return nil
}

// Failed returns a channel that is closed when the log stops because of an error. From then on,
// nothing may be acknowledged or delivered.
func (l *Log) Failed() <-chan struct{} { return l.failed }

func (l *Log) fail(cause error) {
	l.failing.Do(func() {
		l.failure.Store(&FailedError{cause})
		close(l.failed)
		l.o.Logger.Error("the log has stopped: the gateway acknowledges no further messages", "dir", l.dir, "err", cause)
	})
}

// FailedError says that the log stopped after a disk error. Nothing is acknowledged any more,
// because it is unknown what is durable.
type FailedError struct{ Cause error }

func (e *FailedError) Error() string {
	return fmt.Sprintf("the log has stopped: %v: check the disk and start the gateway again", e.Cause)
}

func (e *FailedError) Unwrap() error { return e.Cause }
