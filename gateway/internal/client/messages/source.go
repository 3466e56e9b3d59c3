package messages

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
)

// source is what messages are received from: a queue or subscription, or one of its sessions.
type source interface {
	ReceiveMessages(ctx context.Context, most int, o *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
	ReceiveDeferredMessages(ctx context.Context, numbers []int64, o *azservicebus.ReceiveDeferredMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
	CompleteMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.CompleteMessageOptions) error
	AbandonMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.AbandonMessageOptions) error
	DeadLetterMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.DeadLetterOptions) error
}

// sessionChoice says which session to receive from, if any.
type sessionChoice struct {
	id    string // "" where it is not named, and that of a session too
	exact bool   // id names a session, without a flag
	next  bool
	flags *pflag.FlagSet
}

// named reports whether the session is named.
func (s *sessionChoice) named() bool { return s.exact || s.flags != nil && s.flags.Changed("session") }

func (s *sessionChoice) bind(f *pflag.FlagSet) {
	s.flags = f
	f.StringVar(&s.id, "session", "", "receive from the session with this `id`")
	f.BoolVar(&s.next, "next-session", false, "receive from the next free session that has messages")
}

func (s *sessionChoice) validate(dlq bool) error {
	switch {
	case s.named() && s.next:
		return errors.New("--session and --next-session exclude each other")
	case dlq && (s.named() || s.next):
		return errors.New("--dlq: a dead-letter queue has no sessions: drop --session and --next-session")
	}
	return nil
}

// errNoSession says that no session came within the time given.
var errNoSession = errors.New("no free session has messages")

// openSource connects to a command's queue or subscription, or to a session of it.
// wait bounds how long a next session is waited for. done closes everything.
func openSource(ctx context.Context, t *command.Target, args []string, o *azservicebus.ReceiverOptions, session sessionChoice, wait time.Duration) (r source, done func(), err error) {
	entity, err := t.Entity(args)
	if err != nil {
		return nil, nil, err
	}
	client, err := t.Client()
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = client.Close(context.WithoutCancel(ctx)) }
	topic, subscription, isSubscription := core.SplitSubscription(entity)
	so := &azservicebus.SessionReceiverOptions{ReceiveMode: o.ReceiveMode}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	switch {
	case session.named() && isSubscription:
		r, err = orNil(client.AcceptSessionForSubscription(ctx, topic, subscription, session.id, so))
	case session.named():
		r, err = orNil(client.AcceptSessionForQueue(ctx, entity, session.id, so))
	case session.next && isSubscription:
		r, err = orNil(client.AcceptNextSessionForSubscription(waiting, topic, subscription, so))
	case session.next:
		r, err = orNil(client.AcceptNextSessionForQueue(waiting, entity, so))
	case isSubscription:
		r, err = orNil(client.NewReceiverForSubscription(topic, subscription, o))
	default:
		r, err = orNil(client.NewReceiverForQueue(entity, o))
	}
	if err == nil {
		return r, done, nil
	}
	done()
	coded, ok := errors.AsType[*azservicebus.Error](err)
	if session.next && ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || ok && coded.Code == azservicebus.CodeTimeout) {
		return nil, nil, fmt.Errorf("%s: %w, within %v", entity, errNoSession, wait)
	}
	return nil, nil, err
}

// hasSessions reports whether messages of an entity are received through sessions. A client without
// Manage is not told: then it seems to have none.
func hasSessions(ctx context.Context, t *command.Target, entity string) bool {
	e, _, err := t.Management(nil).Entity(ctx, command.AnyIdentity, entity)
	return err == nil && e.Settings.RequiresSession
}

// sessionHint adds to an error that an entity requires sessions, where the command named none.
func sessionHint(ctx context.Context, t *command.Target, args []string, session sessionChoice, err error) error {
	entity, named := t.Entity(args)
	if err == nil || command.IsNothing(err) || ctx.Err() != nil || named != nil || session.named() || session.next || !hasSessions(ctx, t, entity) {
		return t.Explain(err)
	}
	return fmt.Errorf("%s requires sessions: name one with --session ID, or take the next one with --next-session", entity)
}

// isGone reports whether err says that an entity is not there, or a message in the state that the request
// is about.
func isGone(err error) bool {
	if coded, ok := errors.AsType[*azservicebus.Error](err); ok && coded.Code == azservicebus.CodeNotFound {
		return true
	}
	refused, ok := errors.AsType[*amqp.Error](err)
	return ok && (refused.Condition == amqp.ErrCondNotFound || refused.Condition == "com.microsoft:message-not-found")
}

// orNil keeps a nil receiver from becoming a source that is not nil.
func orNil[R interface {
	*azservicebus.Receiver | *azservicebus.SessionReceiver
	source
}](r R, err error) (source, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}
