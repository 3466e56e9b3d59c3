package wire

import (
	"fmt"

	"github.com/crosstown-mq/crosstown/core/value"
)

// Error is an AMQP error, §2.8.14: one that a peer sent, one to send, or the reason why bytes were refused, with the
// condition to answer with.
type Error struct {
	Condition   value.Symbol
	Description string
	Info        value.Map
}

// Error returns the condition and the description.
func (e *Error) Error() string {
	if e.Description == "" {
		return string(e.Condition)
	}
	return string(e.Condition) + ": " + e.Description
}

func refuse(condition value.Symbol, format string, args ...any) *Error {
	return &Error{Condition: condition, Description: fmt.Sprintf(format, args...)}
}
