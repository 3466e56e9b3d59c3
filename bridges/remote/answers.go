package remote

import (
	"context"
	"errors"
	"fmt"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core"
)

// hopeless has the conditions with which a remote refuses a message for ever.
var hopeless = map[goamqp.ErrCond]core.Code{
	goamqp.ErrCondDecodeError:              core.InvalidArgument,
	goamqp.ErrCondInvalidField:             core.InvalidArgument,
	goamqp.ErrCondPreconditionFailed:       core.NotAllowed,
	goamqp.ErrCondNotAllowed:               core.NotAllowed,
	goamqp.ErrCondNotImplemented:           core.NotAllowed,
	goamqp.ErrCondMessageSizeExceeded:      core.TooLarge,
	"com.microsoft:argument-error":         core.InvalidArgument,
	"com.microsoft:argument-out-of-range":  core.OutOfRange,
	"com.microsoft:message-size-exceeded":  core.TooLarge,
	"com.microsoft:entity-already-exists":  core.NotAllowed,
	"com.microsoft:session-id-required":    core.NotAllowed,
	"com.microsoft:invalid-operation":      core.NotAllowed,
	"com.microsoft:content-not-supported":  core.InvalidArgument,
	"com.microsoft:missing-property-error": core.InvalidArgument,
}

// answer returns the error for a message's outcome. A rejection with an unknown reason, or without
// one, counts as temporary: some brokers reject messages when a queue is full.
func (r *Remote) answer(state goamqp.DeliveryState) error {
	switch s := state.(type) {
	case *goamqp.StateAccepted:
		return nil
	case *goamqp.StateRejected:
		if s.Error == nil {
			return core.Refuse(core.Busy, "The remote '%s' rejected the message without a reason.", r.o.Name)
		}
		if code, ok := hopeless[s.Error.Condition]; ok {
			return core.Refuse(code, "The remote '%s' rejected the message: %s: %s", r.o.Name, s.Error.Condition, s.Error.Description)
		}
		return core.Refuse(core.Busy, "The remote '%s' cannot accept the message now: %s: %s", r.o.Name, s.Error.Condition, s.Error.Description)
	case *goamqp.StateModified:
		if s.UndeliverableHere {
			return core.Refuse(core.NotAllowed, "The remote '%s' answered that it cannot deliver the message.", r.o.Name)
		}
	}
	return core.Refuse(core.Busy, "The remote '%s' returned the message without accepting or rejecting it. Try again.", r.o.Name)
}

func isHopeless(err error) bool {
	switch core.CodeOf(err) {
	case core.NotAllowed, core.InvalidArgument, core.OutOfRange, core.TooLarge:
		return true
	default:
		return false
	}
}

func unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("the remote did not answer in time: %w", ctx.Err())
	}
	return err
}

// blame returns what the end of a link, session or connection means for the only message in flight:
// some brokers end these for a message that they will never accept. It returns nil if there may be
// another reason.
func (r *Remote) blame(err error) error {
	why, ok := errors.AsType[*goamqp.Error](err)          // inside of a LinkError, SessionError or ConnError
	if !ok || why.Condition == goamqp.ErrCondNotAllowed { // not-allowed has many other causes
		return nil
	}
	code, ok := hopeless[why.Condition]
	if !ok {
		return nil
	}
	return core.Refuse(code, "The remote '%s' ended the link because of the message: %s: %s", r.o.Name, why.Condition, why.Description)
}
