package messages

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
)

type replyOptions struct {
	command.Flags
	exec        string
	file        string
	properties  []string
	contentType string
	subject     string
	count       int
	session     sessionChoice
}

// Reply is crosstown reply.
func Reply(environ []string) *cobra.Command {
	var o replyOptions
	c := &cobra.Command{
		Use:   "reply ENTITY [BODY]",
		Short: "Answer requests with a fixed body, or with the output of a command",
		Long: `Answer the requests of a queue or subscription, until interrupted, with BODY, else --file,
standard input, or what the command of --exec prints. A reply goes to the request's
reply-to, in its reply-to-session, with the request's message id as its correlation id.
The request is completed when the reply is sent.

The shell runs the command of --exec once for each request: its standard input is the
body, and REQUEST_MESSAGE_ID, REQUEST_SUBJECT, REQUEST_CONTENT_TYPE,
REQUEST_CORRELATION_ID and REQUEST_SESSION_ID are in its environment. It has as long as
the request is locked. If it fails, the request is abandoned. A request without reply-to,
or whose reply-to is not there, is dead-lettered.`,
		Example: `  crosstown reply prices '{"price":5}' --content-type application/json
  crosstown reply prices --exec 'jq -c "{price: (.sku | length)}"'
  crosstown reply uppercase --exec 'tr a-z A-Z' --count 1`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.BindConnection(c, environ)
	f := c.Flags()
	f.StringVar(&o.exec, "exec", "", "reply with what this shell `command` prints")
	f.StringVar(&o.file, "file", "", "reply with the whole `file`")
	f.StringArrayVar(&o.properties, "property", nil, "user property of replies, `NAME=VALUE`: a number or boolean where it reads as one, a text in double quotes; repeatable")
	f.StringVar(&o.contentType, "content-type", "", "content type of replies")
	f.StringVar(&o.subject, "subject", "", "subject of replies, also called label")
	f.IntVar(&o.count, "count", 0, "end after so many requests; 0: go on")
	o.session.bind(f)
	c.MarkFlagsMutuallyExclusive("exec", "file")
	return c
}

func (o *replyOptions) run(c *cobra.Command, args []string) error {
	properties, err := command.Pairs("--property", o.properties, "")
	switch {
	case err != nil:
		return command.Usage(err)
	case o.count < 0:
		return command.Usagef("--count: %d: answer some requests, or 0 for no limit", o.count)
	case o.exec != "" && len(args) > 1:
		return command.Usagef("--exec: there is a BODY already: drop one of the two")
	}
	if err := command.Usage(o.session.validate(false)); err != nil {
		return err
	}
	r := &replier{options: o, properties: properties, notes: c.ErrOrStderr()}
	if o.exec == "" {
		if r.body, err = wholeBody(c, args[1:], o.file); err != nil {
			return err
		}
	}
	t, err := o.Target()
	if err != nil {
		return err
	}
	if r.client, err = t.Client(); err != nil {
		return err
	}
	defer func() { _ = r.client.Close(context.WithoutCancel(c.Context())) }()
	err = r.run(c.Context(), t, args[0])
	if c.Context().Err() != nil {
		err = nil // the end was asked for
	}
	if err != nil && r.taken == 0 {
		return sessionHint(c.Context(), t, args, o.session, err)
	}
	_, _ = fmt.Fprintf(c.ErrOrStderr(), "answered %s\n", command.Plural(r.answered, "request"))
	return t.Explain(err)
}

var (
	errNoReplyTo    = errors.New("the request has no reply-to")
	errNoReplyQueue = errors.New("the queue of the request's reply-to is not there")
)

// replier answers requests.
type replier struct {
	options    *replyOptions
	properties map[string]any
	body       []byte // without a command
	notes      io.Writer
	client     *azservicebus.Client
	answered   int
	taken      int
}

func (r *replier) run(ctx context.Context, t *command.Target, entity string) error {
	for ctx.Err() == nil && (r.options.count == 0 || r.taken < r.options.count) {
		requests, done, err := openSource(ctx, t, []string{entity}, &azservicebus.ReceiverOptions{}, r.options.session, always)
		if errors.Is(err, errNoSession) {
			continue // the gateway has waited for a while
		}
		if err != nil {
			return err
		}
		err = r.serve(ctx, requests)
		done()
		if err != nil || !r.options.session.next {
			return err
		}
	}
	return nil
}

// serve answers requests until there are as many as were asked for, or a session has no more.
func (r *replier) serve(ctx context.Context, requests source) error {
	wait := always
	if r.options.session.next {
		wait = sessionIdle
	}
	for r.options.count == 0 || r.taken < r.options.count {
		waiting, cancel := context.WithTimeout(ctx, wait)
		ms, err := requests.ReceiveMessages(waiting, 1, nil)
		cancel()
		if err != nil {
			if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				return nil
			}
			return err
		}
		for _, m := range ms {
			r.taken++
			if err := r.settle(context.WithoutCancel(ctx), requests, m, r.answer(ctx, m)); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle ends a request's lock.
func (r *replier) settle(ctx context.Context, requests source, m *azservicebus.ReceivedMessage, failed error) error {
	if failed == nil {
		r.answered++
		return requests.CompleteMessage(ctx, m, nil)
	}
	_, _ = fmt.Fprintf(r.notes, "request %s was not answered: %v\n", cmp.Or(m.MessageID, fmt.Sprint(show(m).SequenceNumber)), failed)
	if errors.Is(failed, errNoReplyTo) || errors.Is(failed, errNoReplyQueue) {
		return requests.DeadLetterMessage(ctx, m, &azservicebus.DeadLetterOptions{Reason: new("NoReplyTo"), ErrorDescription: new(failed.Error())})
	}
	return requests.AbandonMessage(ctx, m, nil)
}

// answer makes a reply and sends it.
func (r *replier) answer(ctx context.Context, m *azservicebus.ReceivedMessage) error {
	to := core.ResourcePath(deref(m.ReplyTo))
	if to == "" {
		return errNoReplyTo
	}
	body, err := r.reply(ctx, m)
	if err != nil {
		return err
	}
	answer := &azservicebus.Message{
		Body: body, ApplicationProperties: r.properties, ContentType: optional(r.options.contentType), Subject: optional(r.options.subject),
		CorrelationID: optional(m.MessageID), SessionID: m.ReplyToSessionID,
	}
	return r.send(context.WithoutCancel(ctx), to, answer)
}

// send sends a reply. A client that has it may delete its queue before the acknowledgement comes.
func (r *replier) send(ctx context.Context, to string, answer *azservicebus.Message) error {
	sender, err := r.client.NewSender(to, nil)
	if err != nil {
		return err
	}
	defer func() { _ = sender.Close(ctx) }()
	_, err = sender.NewMessageBatch(ctx, nil) // it opens the link
	if isGone(err) {
		return errNoReplyQueue
	}
	if err == nil {
		err = sender.SendMessage(ctx, answer, nil)
	}
	if isGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("send to %s: %s", to, cmp.Or(command.Said(err), err.Error()))
	}
	return nil
}

// execMargin is what is left of a request's lock when its command is ended.
const execMargin = 2 * time.Second

// reply is the body of the reply to a request.
func (r *replier) reply(ctx context.Context, m *azservicebus.ReceivedMessage) ([]byte, error) {
	if r.options.exec == "" {
		return r.body, nil
	}
	if m.LockedUntil != nil {
		limited, cancel := context.WithDeadline(ctx, m.LockedUntil.Add(-execMargin))
		defer cancel()
		ctx = limited
	}
	var out bytes.Buffer
	command := exec.CommandContext(ctx, "sh", "-c", r.options.exec)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(m.Body), &out, r.notes
	command.WaitDelay = execMargin / 2 // what it has started may keep its output open
	command.Env = append(os.Environ(),
		"REQUEST_MESSAGE_ID="+m.MessageID, "REQUEST_SUBJECT="+deref(m.Subject), "REQUEST_CONTENT_TYPE="+deref(m.ContentType),
		"REQUEST_CORRELATION_ID="+deref(m.CorrelationID), "REQUEST_SESSION_ID="+deref(m.SessionID))
	if err := command.Run(); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("the command took longer than the request's lock lasts: give the entity a longer --lock-duration")
		}
		return nil, fmt.Errorf("the command failed: %w", err)
	}
	return out.Bytes(), nil
}
