package command

import (
	"errors"
	"fmt"
)

// UsageError says that a command line asks for something invalid.
type UsageError struct{ problem error }

func (e UsageError) Error() string { return e.problem.Error() }

// Unwrap returns the problems, joined.
func (e UsageError) Unwrap() error { return e.problem }

// Usage makes problems a UsageError; nil stays nil.
func Usage(problems error) error {
	if problems == nil {
		return nil
	}
	return UsageError{problems}
}

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Nothing says that a command has found no message. It has an exit code of its own.
type Nothing struct{ text string }

func (e Nothing) Error() string { return e.text }

// Nothingf makes a Nothing.
func Nothingf(format string, args ...any) error { return Nothing{fmt.Sprintf(format, args...)} }

// IsNothing reports whether err is a Nothing.
func IsNothing(err error) bool {
	_, ok := errors.AsType[Nothing](err)
	return ok
}
