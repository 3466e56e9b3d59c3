package command

import (
	"errors"
	"fmt"
)

// UsageError means that a command line is not valid.
type UsageError struct{ problem error }

func (e UsageError) Error() string { return e.problem.Error() }

// Unwrap returns the problems, joined.
func (e UsageError) Unwrap() error { return e.problem }

// Usage returns problems as a UsageError, or nil for nil.
func Usage(problems error) error {
	if problems == nil {
		return nil
	}
	return UsageError{problems}
}

// Usagef creates a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// A Nothing is the error of a command that found nothing, such as no message. It has a separate
// exit code.
type Nothing struct{ text string }

func (e Nothing) Error() string { return e.text }

// Nothingf creates a Nothing.
func Nothingf(format string, args ...any) error { return Nothing{fmt.Sprintf(format, args...)} }

// IsNothing reports whether err is a Nothing.
func IsNothing(err error) bool {
	_, ok := errors.AsType[Nothing](err)
	return ok
}
