package value

import "fmt"

// Error reports bytes that are not a valid encoding, or not of the type that was asked for.
type Error struct {
	Offset int // bytes from the start of the input
	Msg    string
}

// Error returns the message with its offset.
func (e *Error) Error() string { return fmt.Sprintf("value at byte %d: %s", e.Offset, e.Msg) }

func fail(offset int, format string, args ...any) error {
	return &Error{Offset: offset, Msg: fmt.Sprintf(format, args...)}
}

// Limits bounds what Decode and Skip accept in one value. A field that is zero or less has its default.
type Limits struct {
	Depth    int // nested lists, maps, arrays and descriptors; the outermost one is at depth 1
	Elements int // elements of all lists, maps (keys and values) and arrays together
}

// DefaultLimits are the limits that stand in for zero fields.
var DefaultLimits = Limits{Depth: 32, Elements: 65536}

func (l Limits) orDefault() Limits {
	if l.Depth <= 0 {
		l.Depth = DefaultLimits.Depth
	}
	if l.Elements <= 0 {
		l.Elements = DefaultLimits.Elements
	}
	return l
}
