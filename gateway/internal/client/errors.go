package client

import (
	"errors"
	"fmt"
)

// UsageError says that a command line asks for what cannot be.
type UsageError struct{ problem error }

func (e UsageError) Error() string { return e.problem.Error() }

// Unwrap returns the problems, joined.
func (e UsageError) Unwrap() error { return e.problem }

// usage makes problems a UsageError; nil stays nil.
func usage(problems error) error {
	if problems == nil {
		return nil
	}
	return UsageError{problems}
}

// UsageErrorf makes a UsageError.
func UsageErrorf(format string, args ...any) error { return usagef(format, args...) }

func usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Nothing says that a command has found no message. It has an exit code of its own.
type Nothing struct{ text string }

func (e Nothing) Error() string { return e.text }

func nothingf(format string, args ...any) error { return Nothing{fmt.Sprintf(format, args...)} }

// isNothing reports whether err is a Nothing.
func isNothing(err error) bool {
	_, ok := errors.AsType[Nothing](err)
	return ok
}
