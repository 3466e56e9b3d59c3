package frame

import (
	"errors"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
)

// ErrMalformed reports that data is not JSON or MessagePack, is not a map, or is nested too deeply.
var ErrMalformed = errors.New("it is not a valid map in JSON or MessagePack")

type Error struct {
	Code core.Code
	Path string // such as messages[3].broker.Label
	Text string
}

func Wrong(format string, args ...any) error {
	return &Error{Code: core.InvalidArgument, Text: fmt.Sprintf(format, args...)}
}

func outOfRange(format string, args ...any) error {
	return &Error{Code: core.OutOfRange, Text: fmt.Sprintf(format, args...)}
}

// In puts the name of a member, or the index [i] of an element, in front of the path of an Error.
// It returns nil if err is nil.
func In(name string, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	switch {
	case e.Path == "" || e.Path[0] == '[':
		name += e.Path
	default:
		name += "." + e.Path
	}
	return &Error{Code: e.Code, Path: name, Text: e.Text}
}

// At puts the index i of an element in front of the path of an Error, as In puts a name.
func At(i int, err error) error {
	if err == nil {
		return nil
	}
	return In(fmt.Sprintf("[%d]", i), err)
}

func (e *Error) Error() string {
	if e.Path == "" {
		return "The value " + e.Text + "."
	}
	return e.Path + " " + e.Text + "."
}

func (e *Error) Unwrap() error { return e.Code }
