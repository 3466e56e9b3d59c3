package core

import (
	"errors"
	"fmt"
)

// Code is a reason why the broker refuses an operation. Lua scripts return the same words. Each
// bridge maps every Code to a condition of its protocol.
type Code string

func (c Code) Error() string { return string(c) }

const (
	NotFound        Code = "not_found"
	AlreadyExists   Code = "already_exists"
	Conflict        Code = "conflict"          // the entity has changed since the caller read it
	EntityDisabled  Code = "entity_disabled"   // the entity's status forbids the operation
	Unauthorized    Code = "unauthorized"      // no token, a bad token, or a missing claim
	NotAllowed      Code = "not_allowed"       // the entity or the message does not allow the operation
	InvalidArgument Code = "invalid_argument"  // a malformed or inconsistent argument
	OutOfRange      Code = "out_of_range"      // an argument outside its limits
	TooLarge        Code = "too_large"         // the message exceeds the entity's message size
	QuotaExceeded   Code = "quota_exceeded"    // the entity is full, or a limit of the gateway is reached
	LockLost        Code = "lock_lost"         // settle or renew came after the lock ended
	MessageNotFound Code = "message_not_found" // no deferred or scheduled message has that number
	SessionLockLost Code = "session_lock_lost" // the operation came after the session's lock ended
	SessionLocked   Code = "session_locked"    // another receiver holds the session
	Timeout         Code = "timeout"           // the operation did not finish in the time given
	Busy            Code = "busy"              // the store cannot serve this now: try again
	NotImplemented  Code = "not_implemented"   // the gateway does not offer the operation
	Internal        Code = "internal"          // a fault of the gateway; its log has the cause
)

// Codes returns every Code, so that a test can check that a bridge maps them all.
func Codes() []Code {
	return []Code{
		NotFound, AlreadyExists, Conflict, EntityDisabled, Unauthorized, NotAllowed,
		InvalidArgument, OutOfRange, TooLarge, QuotaExceeded, LockLost,
		MessageNotFound, SessionLockLost, SessionLocked, Timeout, Busy, NotImplemented, Internal,
	}
}

// Retriable reports whether the same request may succeed later.
func (c Code) Retriable() bool { return c == Busy || c == Timeout || c == Internal }

// Refusal is a Code with a text for the client. The text names the subject and the remedy, and
// nothing that the client may not see.
type Refusal struct {
	Code Code
	Text string
	// Topic is set if a subscription does not exist, but its topic does.
	Topic string
	// Condition is the AMQP error condition; "" means the usual one of the Code.
	Condition string
}

func Refuse(code Code, format string, args ...any) error {
	return &Refusal{Code: code, Text: fmt.Sprintf(format, args...)}
}

func (r *Refusal) Error() string { return r.Text }

func (r *Refusal) Unwrap() error { return r.Code }

// NotDone is the error of an operation that certainly had no effect, because the store refused it
// or was never reached. After other errors, in particular Busy, it may have had its effect: if the
// store cannot detect repetitions, only repeat an operation that failed with NotDone.
type NotDone struct{ Err error }

func (e NotDone) Error() string { return e.Err.Error() }

func (e NotDone) Unwrap() error { return e.Err }

func CertainlyNotDone(err error) error {
	if IsNotDone(err) {
		return err
	}
	return NotDone{err}
}

func IsNotDone(err error) bool {
	_, ok := errors.AsType[NotDone](err)
	return ok
}

// CodeOf returns the Code in err's chain, Internal if there is none, and "" for a nil err.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if c, ok := errors.AsType[Code](err); ok {
		return c
	}
	return Internal
}

// TextOf returns the text of the Refusal in err's chain, or "".
func TextOf(err error) string {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Text
	}
	return ""
}
