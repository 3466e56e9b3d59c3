package client

import "fmt"

// Nothing says that a command has found no message. It has an exit code of its own.
type Nothing struct{ text string }

func (e Nothing) Error() string { return e.text }

func nothingf(format string, args ...any) error { return Nothing{fmt.Sprintf(format, args...)} }
