package messages

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/bridges/remote"
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
REQUEST_CORRELATION_ID and REQUEST_SESSION_ID are in its environment. The request stays
locked meanwhile. If the command fails, the request is abandoned. A request without
reply-to, or whose reply-to is not there, is dead-lettered.`,
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
	properties, err := command.Properties("--property", o.properties)
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
	if r.link, err = t.Link(c.Context(), args[0]); err != nil {
		return t.Explain(err)
	}
	defer r.link.Close()
	err = r.run(c.Context(), args[0])
	if c.Context().Err() != nil {
		err = nil // the end was asked for
	}
	if err != nil && r.taken == 0 {
		return sessionHint(c.Context(), t, args[0], o.session, err)
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
	properties core.Properties
	body       []byte // without a command
	notes      io.Writer
	link       *remote.Client
	answered   int
	taken      int
}

func (r *replier) run(ctx context.Context, entity string) error {
	for ctx.Err() == nil && (r.options.count == 0 || r.taken < r.options.count) {
		requests, err := openReceiver(ctx, r.link, entity, remote.ReceiverOptions{}, r.options.session, always)
		if errors.Is(err, remote.ErrNoSession) {
			continue // the gateway has waited for a while
		}
		if err != nil {
			return err
		}
		err = r.serve(ctx, requests)
		requests.Close()
		if err != nil || !r.options.session.next {
			return err
		}
	}
	return nil
}

// serve answers requests until there are as many as were asked for, or a session has no more.
func (r *replier) serve(ctx context.Context, requests *remote.Receiver) error {
	wait := always
	if r.options.session.next {
		wait = sessionIdle
	}
	for r.options.count == 0 || r.taken < r.options.count {
		ts, err := requests.Take(ctx, 1, wait)
		if err != nil || len(ts) == 0 {
			return err
		}
		r.taken++
		if err := r.settle(context.WithoutCancel(ctx), requests, ts, r.answer(ctx, &ts[0].Arrival)); err != nil {
			return err
		}
	}
	return nil
}

// settle ends a request's lock.
func (r *replier) settle(ctx context.Context, requests *remote.Receiver, request []remote.Taken, failed error) error {
	if failed == nil {
		r.answered++
		return errors.Join(requests.Complete(ctx, request)...)
	}
	settle := requests.Abandon
	if errors.Is(failed, errNoReplyTo) || errors.Is(failed, errNoReplyQueue) {
		settle = func(ctx context.Context, ts []remote.Taken) []error {
			return requests.DeadLetter(ctx, ts, "NoReplyTo", failed.Error())
		}
	}
	err := errors.Join(settle(ctx, request)...)
	_, _ = fmt.Fprintf(r.notes, "request %s was not answered: %v\n", cmp.Or(request[0].MessageID.String(), fmt.Sprint(request[0].SequenceNumber)), failed)
	return err
}

// answer makes a reply and sends it.
func (r *replier) answer(ctx context.Context, a *amqp.Arrival) error {
	to := core.ResourcePath(a.ReplyTo)
	if to == "" {
		return errNoReplyTo
	}
	body, err := r.reply(ctx, a)
	if err != nil {
		return err
	}
	answer := &core.Message{
		Body: core.Body{Bytes: body}, Properties: r.properties, MessageID: idOf(rand.Text()), ContentType: r.options.contentType,
		Subject: r.options.subject, CorrelationID: a.MessageID, SessionID: a.ReplyToSessionID,
	}
	if a.Has(core.FieldReplyToSessionID, a.ReplyToSessionID) {
		answer.EmptyText = core.FieldSessionID
	}
	return r.send(context.WithoutCancel(ctx), to, answer)
}

// send sends a reply. A client that has it may delete its queue before the acknowledgement comes.
func (r *replier) send(ctx context.Context, to string, answer *core.Message) error {
	sender, err := r.link.Sender(ctx, to)
	if isGone(err) {
		return errNoReplyQueue
	}
	if err == nil {
		defer sender.Close()
		err = errors.Join(sender.Add(ctx, answer), sender.Flush(ctx))
	}
	if isGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("send to %s: %s", to, cmp.Or(command.Said(err), err.Error()))
	}
	return nil
}

// reply is the body of the reply to a request, whose lock is renewed meanwhile.
func (r *replier) reply(ctx context.Context, a *amqp.Arrival) ([]byte, error) {
	if r.options.exec == "" {
		return r.body, nil
	}
	var out bytes.Buffer
	command := exec.CommandContext(ctx, "sh", "-c", r.options.exec)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(contentOf(a)), &out, r.notes
	command.WaitDelay = time.Second // what it has started may keep its output open
	command.Env = append(os.Environ(),
		"REQUEST_MESSAGE_ID="+a.MessageID.String(), "REQUEST_SUBJECT="+a.Subject, "REQUEST_CONTENT_TYPE="+a.ContentType,
		"REQUEST_CORRELATION_ID="+a.CorrelationID.String(), "REQUEST_SESSION_ID="+a.SessionID)
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("the command failed: %w", err)
	}
	return out.Bytes(), nil
}
