package client

import "fmt"

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
