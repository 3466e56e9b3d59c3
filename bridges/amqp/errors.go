package amqp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// answer is what the client gets for a core.Code. text is for a refusal without a text.
type answer struct {
	condition value.Symbol
	status    int32
	text      string
}

const (
	internalText = "The service was unable to process the request; please retry the operation."
	lockLostText = "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue."
)

var answers = map[core.Code]answer{
	core.NotFound:        {wire.CondNotFound, 404, "The messaging entity could not be found."},
	core.AlreadyExists:   {wire.CondEntityAlreadyExists, 409, "The messaging entity already exists."},
	core.Conflict:        {wire.CondResourceLocked, 409, "Resource Conflict Occurred. Another conflicting operation may be in progress."},
	core.EntityDisabled:  {wire.CondEntityDisabled, 400, "The messaging entity is disabled."},
	core.Unauthorized:    {wire.CondUnauthorizedAccess, 401, "Unauthorized access."},
	core.NotAllowed:      {wire.CondNotAllowed, 400, "The operation is not allowed here."},
	core.InvalidArgument: {wire.CondArgumentError, 400, "An argument is not valid."},
	core.OutOfRange:      {wire.CondArgumentOutOfRange, 400, "An argument is out of range."},
	core.TooLarge:        {wire.CondMessageSizeExceeded, 403, "The message is too large."},
	core.QuotaExceeded:   {wire.CondResourceLimitExceeded, 403, "The maximum entity size has been reached or exceeded."},
	core.LockLost:        {wire.CondMessageLockLost, 410, lockLostText},
	core.MessageNotFound: {wire.CondMessageNotFound, 404, "The message with the given sequence number could not be found."},
	core.SessionLockLost: {wire.CondSessionLockLost, 410, "The session lock has expired on the MessageSession. Accept a new MessageSession."},
	core.SessionLocked:   {wire.CondSessionCannotBeLocked, 410, "The requested session cannot be accepted. It may be locked by another receiver."},
	core.Timeout:         {wire.CondTimeout, 408, "The operation did not complete within the allotted time."},
	core.Busy:            {wire.CondServerBusy, 503, "The server is busy. Please wait 10 seconds and try again."},
	core.NotImplemented:  {wire.CondNotImplemented, 501, "The operation is not supported."},
	core.Internal:        {wire.CondInternalError, 500, internalText},
}

const maxLogged = 100

// answerTo logs err under a tracking id, which is also in the answer's text. l may be nil; about
// has further keys and values for the log. rejection is the condition for rejecting a delivery. An
// error of a decoder counts as the client's fault.
func (c *conn) answerTo(l *engine.Link, err error, addr core.Address, about ...any) (a answer, rejection value.Symbol) {
	tracking := refusals.NewTracking()
	told := refusals.Told{Tracking: tracking, Code: core.InvalidArgument, Entity: addr.String(), Err: err, Stranger: !c.known.Load()}
	if l != nil {
		about = append(about, "link", l.Number)
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		c.Refusals.Write(c.Log, told, about...)
		return answer{e.Condition, 400, c.tail(e.Description, tracking, addr)}, e.Condition
	}
	code := core.CodeOf(err)
	if code == core.Internal && errors.Is(err, context.DeadlineExceeded) {
		code = core.Timeout
	}
	a, ok := answers[code]
	if !ok {
		a = answers[core.Internal]
	}
	if rejection = a.condition; code == core.InvalidArgument || code == core.OutOfRange {
		// The Go SDK takes a.condition for a lost connection, and would replace it for all links.
		rejection = wire.CondNotAllowed
	}
	if r, ok := errors.AsType[*core.Refusal](err); ok && r.Condition != "" {
		a.condition, rejection = value.Symbol(r.Condition), value.Symbol(r.Condition)
	}
	told.Code = code
	c.Refusals.Write(c.Log, told, about...)
	switch own := core.TextOf(err); {
	case code == core.Internal: // the client learns nothing about the cause
	case code == core.NotFound && (addr.Entity != "" || own == ""): // some clients look for the words of this text
		a.text = c.notFoundText(err, addr)
	case own != "":
		a.text = own
	}
	if code == core.LockLost {
		a.text = fmt.Sprintf("%s Reference:%s,", a.text, value.NewUUID())
	}
	a.text = c.tail(a.text, tracking, addr)
	return a, rejection
}

// notFoundText returns the service's text for a missing entity. As in Azure, it names topic and
// subscription separately only if the topic exists.
func (c *conn) notFoundText(err error, addr core.Address) string {
	if r, ok := errors.AsType[*core.Refusal](err); ok && r.Topic != "" {
		return fmt.Sprintf("The messaging entity '%s' could not be found. To know more visit https://aka.ms/sbResourceMgrExceptions.", c.tracker(addr))
	}
	path := core.Address{Entity: addr.Entity, Sub: addr.Sub}
	if topic, subscription, ok := core.SplitSubscription(addr.Entity); ok {
		path.Entity = core.SubscriptionPath(topic, subscription)
	}
	return fmt.Sprintf("The messaging entity 'sb://%s/%s' could not be found.", c.host, path)
}

// refusal is answerTo as a *wire.Error. Any goroutine may call it once the connection is open.
func (c *conn) refusal(l *engine.Link, err error, addr core.Address, about ...any) *wire.Error {
	a, _ := c.answerTo(l, err, addr, about...)
	return &wire.Error{Condition: a.condition, Description: a.text}
}

func (c *conn) rejected(l *engine.Link, err error, addr core.Address, about ...any) wire.Rejected {
	a, rejection := c.answerTo(l, err, addr, about...)
	return wire.Rejected{Error: &wire.Error{Condition: rejection, Description: a.text}}
}

// tail appends a tracking id, the entity and the time to text; users send these to operators.
func (c *conn) tail(text string, tracking string, addr core.Address) string {
	return fmt.Sprintf("%s TrackingId:%s_G0, SystemTracker:%s, Timestamp:%s",
		text, tracking, c.tracker(addr), time.Now().UTC().Format("2006-01-02T15:04:05"))
}

func (c *conn) tracker(addr core.Address) string {
	namespace, _, _ := strings.Cut(c.host, ".")
	topic, subscription, ok := core.SplitSubscription(addr.Entity)
	switch {
	case addr.Entity == "":
		return namespace
	case ok:
		return namespace + ":Topic:" + topic + "|" + subscription + addr.Sub.Suffix()
	case c.topics.has(addr.Entity):
		return namespace + ":Topic:" + addr.Entity + addr.Sub.Suffix()
	default:
		return namespace + ":Queue:" + addr.Entity + addr.Sub.Suffix()
	}
}

// topics remembers which entities are topics. Any goroutine may use it.
type topics struct {
	names sync.Map // the keys are lower-case names
	count atomic.Int32
}

const maxTopics = 1000

func (t *topics) learn(e *core.Entity) {
	if e.Kind != core.Topic || t.count.Load() >= maxTopics {
		return
	}
	if _, known := t.names.LoadOrStore(core.FoldName(e.Name), nil); !known {
		t.count.Add(1)
	}
}

func (t *topics) has(name string) bool {
	_, ok := t.names.Load(core.FoldName(name))
	return ok
}
