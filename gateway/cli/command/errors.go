package command

import (
	"errors"
	"fmt"
)

type UsageError struct{ problem error }

func (e UsageError) Error() string { return e.problem.Error() }

func (e UsageError) Unwrap() error { return e.problem }

func Usage(problems error) error {
	if problems == nil {
		return nil
	}
	return UsageError{problems}
}

func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// A Nothing is the error of a command that found nothing, such as no message. Its exit code is 4.
type Nothing struct{ text string }

func (e Nothing) Error() string { return e.text }

func Nothingf(format string, args ...any) error { return Nothing{fmt.Sprintf(format, args...)} }

func IsNothing(err error) bool {
	_, ok := errors.AsType[Nothing](err)
	return ok
}
