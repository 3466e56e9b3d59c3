package wal

import "fmt"

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
