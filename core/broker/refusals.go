package broker

import (
	"context"
	"errors"

	"github.com/crosstown-mq/crosstown/core"
)

// Refusals without names are made once.
var (
	errStopping = core.Refuse(core.Busy, "The server is stopping. Connect again.")
	errLockLost = core.Refuse(core.LockLost, "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue.")

	errSessionLost  = core.Refuse(core.SessionLockLost, "The session lock has expired on the MessageSession. Accept a new MessageSession.")
	errNoSessions   = core.Refuse(core.NotAllowed, "A sessionful message receiver cannot be created on an entity that does not require sessions.")
	errSessionsOnly = core.Refuse(core.NotAllowed, "It is not possible for an entity that requires sessions to create a non-sessionful message receiver.")
	errNoSessionID  = core.Refuse(core.NotAllowed, "The SessionId was not set on a message, and it cannot be sent to the entity. Entities that have session support enabled can only receive messages that have the SessionId set to a valid value.")

	errBusy     = core.Refuse(core.Busy, "The server was unable to reach its store. Please wait and try again.")
	errTimeout  = core.Refuse(core.Timeout, "The operation did not complete within the time given.")
	errSettled  = core.Refuse(core.NotAllowed, "A message in a dead-letter queue cannot be dead-lettered.")
	errNoNumber = core.Refuse(core.MessageNotFound, "The message with the given sequence number could not be found: it does not exist, or is not in the state the operation asks for.")
)

// notFound is the text by which SDKs recognise a missing entity.
func (b *Broker) notFound(name string) error {
	if b.host != "" {
		name = "sb://" + b.host + "/" + core.ResourcePath(name)
	}
	return core.Refuse(core.NotFound, "The messaging entity '%s' could not be found. To know more visit https://aka.ms/sbResourceMgrExceptions. ", name)
}

// exists is the refusal of a name in use. Subscriptions are named by their parts, as at Service
// Bus.
func (b *Broker) exists(ent *core.Entity) error {
	const more = "already exists. To know more visit https://aka.ms/sbResourceMgrExceptions. "
	if topic, own, ok := core.SplitSubscription(ent.Name); ok {
		return core.Refuse(core.AlreadyExists, "The messaging entity '%s:Topic:%s|%s' %s", b.name, topic, own, more)
	}
	return core.Refuse(core.AlreadyExists, "Conflict. You're requesting an operation that isn't allowed in the resource's current state. The messaging entity '%s' %s", ent.Name, more)
}

func disabled(name string) error {
	return core.Refuse(core.EntityDisabled, "The messaging entity '%s' is currently disabled.", name)
}

// forwards is the refusal to receive from an entity that forwards its messages.
func forwards(v *view) error {
	return core.Refuse(core.NotAllowed, "'%s' forwards its messages to '%s': receive from there.", v.Name, forwardPath(&v.Settings, core.Main))
}

// refusal makes the store's error for an entity readable for the peer, and keeps whether it is
// NotDone. Refusals of the broker pass. An error without a Code means that the store was not
// reached: it is logged, and the peer is told to try again.
func (b *Broker) refusal(err error, entity *core.Entity) error {
	if err == nil {
		return nil
	}
	if core.IsNotDone(err) {
		return core.CertainlyNotDone(b.readable(err, entity))
	}
	return b.readable(err, entity)
}

func (b *Broker) readable(err error, entity *core.Entity) error {
	if n, ok := errors.AsType[*noVerdict](err); ok {
		return n
	}
	if r, ok := errors.AsType[*core.Refusal](err); ok {
		return r
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errTimeout
	}
	switch code := core.CodeOf(err); code {
	case core.LockLost:
		return errLockLost
	case core.SessionLockLost:
		return errSessionLost
	case core.MessageNotFound:
		return errNoNumber
	case core.NotFound:
		return b.notFound(entity.Name)
	case core.NotAllowed:
		return errSettled
	case core.QuotaExceeded:
		return core.Refuse(code, "The maximum entity size has been reached or exceeded for %s: '%s'. Max entity size in bytes: %d. Receive messages, or raise MaxSizeInMegabytes.",
			entity.Kind, entity.Name, entity.Megabytes()<<20)
	case core.Busy:
		return errBusy
	default:
		b.log.Warn("store call", "entity", entity.Name, "err", err)
		return errBusy
	}
}
