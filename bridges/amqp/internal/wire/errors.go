package wire

import (
	"fmt"

	"github.com/crosstown-mq/crosstown/core/value"
)

// Error is an AMQP error, §2.8.14.
type Error struct {
	Condition   value.Symbol
	Description string
	Info        value.Map
}

func (e *Error) Error() string {
	if e.Description == "" {
		return string(e.Condition)
	}
	return string(e.Condition) + ": " + e.Description
}

func refuse(condition value.Symbol, format string, args ...any) *Error {
	return &Error{Condition: condition, Description: fmt.Sprintf(format, args...)}
}

// Conditions of AMQP 1.0 §2.8.15–§2.8.18 and §4.5.9.
const (
	CondInternalError         value.Symbol = "amqp:internal-error"
	CondNotFound              value.Symbol = "amqp:not-found"
	CondUnauthorizedAccess    value.Symbol = "amqp:unauthorized-access"
	CondDecodeError           value.Symbol = "amqp:decode-error"
	CondResourceLimitExceeded value.Symbol = "amqp:resource-limit-exceeded"
	CondNotAllowed            value.Symbol = "amqp:not-allowed"
	CondInvalidField          value.Symbol = "amqp:invalid-field"
	CondNotImplemented        value.Symbol = "amqp:not-implemented"
	CondResourceLocked        value.Symbol = "amqp:resource-locked"
	CondIllegalState          value.Symbol = "amqp:illegal-state"
	CondFrameSizeTooSmall     value.Symbol = "amqp:frame-size-too-small"

	CondConnectionForced value.Symbol = "amqp:connection:forced"
	CondFramingError     value.Symbol = "amqp:connection:framing-error"

	CondWindowViolation  value.Symbol = "amqp:session:window-violation"
	CondHandleInUse      value.Symbol = "amqp:session:handle-in-use"
	CondUnattachedHandle value.Symbol = "amqp:session:unattached-handle"

	CondDetachForced          value.Symbol = "amqp:link:detach-forced"
	CondTransferLimitExceeded value.Symbol = "amqp:link:transfer-limit-exceeded"
	CondMessageSizeExceeded   value.Symbol = "amqp:link:message-size-exceeded"

	CondTransactionUnknownID value.Symbol = "amqp:transaction:unknown-id"
)

// Conditions of Service Bus.
const (
	CondTimeout               value.Symbol = "com.microsoft:timeout"
	CondServerBusy            value.Symbol = "com.microsoft:server-busy"
	CondArgumentError         value.Symbol = "com.microsoft:argument-error"
	CondArgumentOutOfRange    value.Symbol = "com.microsoft:argument-out-of-range"
	CondEntityDisabled        value.Symbol = "com.microsoft:entity-disabled"
	CondEntityAlreadyExists   value.Symbol = "com.microsoft:entity-already-exists"
	CondMessageLockLost       value.Symbol = "com.microsoft:message-lock-lost"
	CondSessionLockLost       value.Symbol = "com.microsoft:session-lock-lost"
	CondSessionCannotBeLocked value.Symbol = "com.microsoft:session-cannot-be-locked"
	CondMessageNotFound       value.Symbol = "com.microsoft:message-not-found"
	CondDeadLetter            value.Symbol = "com.microsoft:dead-letter" // sent by clients, within Rejected
)
