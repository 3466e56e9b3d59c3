package entity

import (
	"context"
	"errors"

	"github.com/crosstown-mq/crosstown/core"
)

// These refusals contain no name, so one value is enough for all calls.
var (
	ErrStopping = core.Refuse(core.Busy, "The server is stopping. Connect again.")
	ErrLockLost = core.Refuse(core.LockLost, "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue.")

	ErrSessionLost  = core.Refuse(core.SessionLockLost, "The session lock has expired on the MessageSession. Accept a new MessageSession.")
	ErrNoSessions   = core.Refuse(core.NotAllowed, "A sessionful message receiver cannot be created on an entity that does not require sessions.")
	ErrSubQueue     = core.Refuse(core.NotImplemented, "Cannot create a MessageSession for a sub-queue.")
	errSessionsOnly = core.Refuse(core.NotAllowed, "It is not possible for an entity that requires sessions to create a non-sessionful message receiver.")
	ErrNoSessionID  = core.Refuse(core.NotAllowed, "The SessionId was not set on a message, and it cannot be sent to the entity. Entities that have session support enabled can only receive messages that have the SessionId set to a valid value.")

	errBusy       = core.Refuse(core.Busy, "The server was unable to reach its store. Please wait and try again.")
	ErrTimeout    = core.Refuse(core.Timeout, "The operation did not complete within the time given.")
	errSettled    = core.Refuse(core.NotAllowed, "A message in a dead-letter queue cannot be dead-lettered.")
	errSetTooMuch = core.Refuse(core.InvalidArgument, "The properties that settlements set on a message may have at most %d bytes in total: set fewer or shorter properties.", core.MaxHeaderBytes)
	ErrNoNumber   = core.Refuse(core.MessageNotFound, "The message with the given sequence number could not be found: it does not exist, or its state does not allow the operation.")
)

// SDKs recognise a missing entity by this text.
func (n *Namespace) NotFound(name string) error {
	return core.Refuse(core.NotFound, "The messaging entity '%s' could not be found. To know more visit https://aka.ms/sbResourceMgrExceptions. ", name)
}

// As in Service Bus, the text names the topic and the subscription separately.
func (n *Namespace) Exists(ent *core.Entity) error {
	const more = "already exists. To know more visit https://aka.ms/sbResourceMgrExceptions. "
	if topic, own, ok := core.SplitSubscription(ent.Name); ok {
		return core.Refuse(core.AlreadyExists, "The messaging entity '%s:Topic:%s|%s' %s", n.Name, topic, own, more)
	}
	return core.Refuse(core.AlreadyExists, "Conflict. You're requesting an operation that isn't allowed in the resource's current state. The messaging entity '%s' %s", ent.Name, more)
}

// Refusal gives an error of the store a text for clients. A NotDone stays NotDone, and refusals of the
// broker do not change. An error without a Code means that the store was not reached: Refusal logs it,
// and returns Busy.
func (n *Namespace) Refusal(err error, entity *core.Entity) error {
	if err == nil {
		return nil
	}
	if core.IsNotDone(err) {
		return core.CertainlyNotDone(n.readable(err, entity))
	}
	return n.readable(err, entity)
}

func (n *Namespace) readable(err error, entity *core.Entity) error {
	if lack, ok := errors.AsType[*NoVerdict](err); ok {
		return lack
	}
	if r, ok := errors.AsType[*core.Refusal](err); ok {
		return r
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return ErrTimeout
	}
	switch code := core.CodeOf(err); code {
	case core.LockLost:
		return ErrLockLost
	case core.SessionLockLost:
		return ErrSessionLost
	case core.MessageNotFound:
		return ErrNoNumber
	case core.NotFound:
		return n.NotFound(entity.Name)
	case core.NotAllowed:
		return errSettled
	case core.QuotaExceeded:
		return core.Refuse(code, "The maximum entity size has been reached or exceeded for %s: '%s'. Max entity size in bytes: %d. Receive messages, or raise MaxSizeInMegabytes.",
			entity.Kind, entity.Name, entity.Megabytes()<<20)
	case core.TooLarge:
		return errSetTooMuch
	case core.Busy:
		return errBusy
	default:
		n.Log.Warn("a call to the store failed", "entity", entity.Name, "err", err)
		return errBusy
	}
}

// Lock treats err like Refusal, but turns NotFound into ErrLockLost.
func (n *Namespace) Lock(err error, v *View) error {
	if core.CodeOf(err) == core.NotFound {
		return ErrLockLost
	}
	return n.Refusal(err, &v.Entity)
}

func (n *Namespace) Locks(errs []error, v *View) []error {
	for i := range errs {
		errs[i] = n.Lock(errs[i], v)
	}
	return errs
}

type NoVerdict struct {
	Refusal error
	Parks   bool
}

func (n *NoVerdict) Error() string { return n.Refusal.Error() }

func (n *NoVerdict) Unwrap() error { return n.Refusal }

func LacksVerdict(err error) bool {
	_, ok := errors.AsType[*NoVerdict](err)
	return ok
}
