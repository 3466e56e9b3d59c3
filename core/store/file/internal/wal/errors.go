package wal

import (
	"errors"
	"fmt"
)

var (
	ErrClosed   = errors.New("the log is closed")
	ErrTooLarge = errors.New("the operation does not fit into a frame of the log")
	ErrGone     = errors.New("the segment of the log was already removed")
	// A segment is in use while it is written or a kept snapshot needs it.
	ErrInUse = errors.New("a backup or another operation still uses the segment of the log")
)

// FullError means that the disk has no space for more messages.
type FullError struct {
	Dir  string
	Free int64
	Keep int64
	// Cause is the error of the last write (such as a user's quota), or nil.
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

// DamageError means that synced data differ from what was written.
type DamageError struct {
	File   string
	From   uint32
	To     uint32 // 0: unknown
	Reason string
}

func (e *DamageError) Error() string {
	to := "the end"
	if e.To != 0 {
		to = fmt.Sprint(e.To)
	}
	return fmt.Sprintf("%s is damaged from byte %d to %s: %s", e.File, e.From, to, e.Reason)
}

type VersionError struct {
	File    string
	Version uint32
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format %d, but this version reads format %d: "+
		"start the version that wrote it, or give the store another directory", e.File, e.Version, formatVersion)
}

func (l *Log) Err() error {
	if e := l.failure.Load(); e != nil {
		return e
	}
	return nil
}

// Failed returns a channel that is closed when an error stops the log. From then on, the store must
// not acknowledge or deliver anything.
func (l *Log) Failed() <-chan struct{} { return l.failed }

func (l *Log) fail(cause error) {
	l.failing.Do(func() {
		l.failure.Store(&FailedError{cause})
		close(l.failed)
		l.o.Logger.Error("the log has stopped: the gateway acknowledges no further messages; check the disk and start the gateway again", "dir", l.dir, "err", cause)
	})
}

// FailedError means that a disk error has stopped the log. Nothing may be acknowledged any more,
// because it is unknown what is durable.
type FailedError struct{ Cause error }

func (e *FailedError) Error() string {
	return fmt.Sprintf("the log has stopped: %v: check the disk and start the gateway again", e.Cause)
}

func (e *FailedError) Unwrap() error { return e.Cause }
