package messages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
)

// hintPatience is the timeout of requests that only add a hint to an error.
const hintPatience = 5 * time.Second

type sessionChoice struct {
	id    string // named tells whether the flag is set, because "" is also a valid session id
	next  bool
	flags *pflag.FlagSet
}

func (s *sessionChoice) named() bool { return s.flags != nil && s.flags.Changed("session") }

func (s *sessionChoice) bind(f *pflag.FlagSet) {
	s.flags = f
	f.StringVar(&s.id, "session", "", "receive from the session with this `id`")
	f.BoolVar(&s.next, "next-session", false, "receive from the next free session that has messages")
}

func (s *sessionChoice) validate(dlq bool) error {
	switch {
	case s.named() && s.next:
		return errors.New("use --session or --next-session, not both")
	case dlq && (s.named() || s.next):
		return errors.New("--dlq cannot be combined with --session or --next-session, because a dead-letter queue has no sessions")
	}
	return nil
}

func openReceiver(ctx context.Context, link *remote.Client, entity string, o remote.ReceiverOptions, session sessionChoice, wait time.Duration) (*remote.Receiver, error) {
	switch {
	case session.named():
		o.Session = &session.id
	case session.next:
		o.Next = wait
	}
	r, err := link.Receiver(ctx, entity, o)
	if errors.Is(err, remote.ErrNoSession) {
		return nil, fmt.Errorf("%s: %w within %v", entity, err, wait)
	}
	return r, err
}

// told gets entity from the management API, for a hint in an error. ok is false after an error.
func told(ctx context.Context, t *command.Target, entity string) (e core.Entity, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, hintPatience)
	defer cancel()
	client := t.Management(nil)
	client.Attempts = 1
	e, _, err := client.Entity(ctx, command.AnyIdentity, entity)
	return e, err == nil
}

func hasSessions(ctx context.Context, t *command.Target, entity string) bool {
	e, ok := told(ctx, t, entity)
	return ok && e.Settings.RequiresSession
}

func isTopic(ctx context.Context, t *command.Target, entity string) bool {
	e, ok := told(ctx, t, entity)
	return ok && e.Kind == core.Topic
}

func sessionHint(ctx context.Context, t *command.Target, entity string, session sessionChoice, err error) error {
	if err == nil || command.IsNothing(err) || ctx.Err() != nil || session.named() || session.next || !hasSessions(ctx, t, entity) {
		return t.Explain(err)
	}
	return fmt.Errorf("the entity '%s' requires sessions: specify a session with --session ID, or accept the next session with --next-session", entity)
}

func isGone(err error) bool {
	if status, _, ok := remote.Refusal(err); ok {
		return status == http.StatusNotFound
	}
	refused, ok := errors.AsType[*amqp.Error](err)
	return ok && (refused.Condition == amqp.ErrCondNotFound || refused.Condition == "com.microsoft:message-not-found")
}
