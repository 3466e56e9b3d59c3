package messages

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

const (
	// replyQueueLife is when a temporary reply queue that was left behind is deleted.
	replyQueueLife = 5 * time.Minute
	// farewell bounds what is cleaned up after an interruption.
	farewell = 5 * time.Second
)

type requestOptions struct {
	command.Flags
	file        string
	properties  []string
	contentType string
	messageID   string
	subject     string
	session     string
	replyTo     string
	timeout     string
	raw         bool
}

// Request is crosstown request.
func Request(environ []string) *cobra.Command {
	var o requestOptions
	c := &cobra.Command{
		Use:   "request ENTITY [BODY]",
		Short: "Send a request and print the reply",
		Long: `Send a request and print the reply. BODY is the request, else --file or standard input.

The reply comes to a temporary queue, which needs Manage and is deleted afterwards, or with
--reply-to to a session of its own in a queue with sessions. The request carries the queue
as reply-to, the session as reply-to-session, and a message id, which the reply must carry
as its correlation id: crosstown reply does so.

The exit code is 4 if no reply came in time.`,
		Example: `  crosstown request prices '{"sku":"a7"}' --content-type application/json
  crosstown request prices a7 --reply-to replies --timeout 5s --raw
  crosstown reply prices '{"price":5}'`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.Bind(c, environ)
	f := c.Flags()
	f.StringVar(&o.file, "file", "", "send the whole `file` as the request")
	f.StringArrayVar(&o.properties, "property", nil, "user property, `NAME=VALUE`: a number or boolean where it reads as one, a text in double quotes; repeatable")
	f.StringVar(&o.contentType, "content-type", "", "content type of the body")
	f.StringVar(&o.messageID, "message-id", "", "message id (default: the command makes one)")
	f.StringVar(&o.subject, "subject", "", "subject, also called label")
	f.StringVar(&o.session, "session", "", "`id` of the session that the request belongs to")
	f.StringVar(&o.replyTo, "reply-to", "", "`queue` with sessions that gets the reply (default: a temporary queue)")
	f.StringVar(&o.timeout, "timeout", "30s", "how long to wait for the reply, a `duration`")
	f.BoolVar(&o.raw, "raw", false, "print the body of the reply as it is, and nothing else")
	c.MarkFlagsMutuallyExclusive("raw", "json")
	return c
}

func (o *requestOptions) run(c *cobra.Command, args []string) error {
	timeout, err := config.ParseDuration(o.timeout)
	if err != nil || timeout <= 0 {
		return command.Usagef("--timeout: %q: write a duration such as 30s", o.timeout)
	}
	properties, err := command.Properties("--property", o.properties)
	if err != nil {
		return command.Usage(err)
	}
	body, err := wholeBody(c, args[1:], o.file)
	if err != nil {
		return err
	}
	t, err := o.Target()
	if err != nil {
		return err
	}
	m := &core.Message{
		Body: core.Body{Bytes: body}, Properties: properties, MessageID: idOf(cmp.Or(o.messageID, rand.Text())), ContentType: o.contentType, Subject: o.subject,
	}
	if c.Flags().Changed("session") { // its id may be empty
		m.SessionID, m.EmptyText = o.session, core.FieldSessionID
	}
	link, err := t.Link(c.Context(), args[0])
	if err != nil {
		return t.Explain(err)
	}
	defer link.Close()
	replies, done, err := o.replies(c.Context(), t, link, m)
	if err != nil {
		return t.Explain(err)
	}
	defer done()
	if err := sendOne(c.Context(), link, args[0], m); err != nil {
		return t.Explain(err)
	}
	ctx, cancel := context.WithTimeout(c.Context(), timeout)
	defer cancel()
	reply, err := awaitReply(ctx, replies, m.MessageID.String(), c.ErrOrStderr())
	if err != nil {
		if c.Context().Err() == nil && ctx.Err() != nil {
			return command.Nothingf("no reply came within %v", timeout)
		}
		return t.Explain(err)
	}
	if o.raw {
		_, err = c.OutOrStdout().Write(contentOf(&reply[0].Arrival))
		return err
	}
	return printReceived(c.OutOrStdout(), o.JSON, reply)
}

// wholeBody is the body of a command's argument, file or standard input.
func wholeBody(c *cobra.Command, args []string, file string) ([]byte, error) {
	switch {
	case len(args) > 0 && file != "":
		return nil, command.Usagef("--file: there is a BODY already: drop one of the two")
	case len(args) > 0:
		return []byte(args[0]), nil
	case file != "":
		return os.ReadFile(file)
	}
	return io.ReadAll(c.InOrStdin())
}

// replies opens what the reply comes to, and names it in the request. done closes it.
func (o *requestOptions) replies(ctx context.Context, t *command.Target, link *remote.Client, m *core.Message) (r *remote.Receiver, done func(), err error) {
	removing := remote.ReceiverOptions{Delete: true}
	if o.replyTo != "" {
		m.ReplyTo, m.ReplyToSessionID = o.replyTo, rand.Text()
		removing.Session = &m.ReplyToSessionID
		if r, err = link.Receiver(ctx, o.replyTo, removing); err != nil {
			return nil, nil, fmt.Errorf("--reply-to: %s must be a queue with sessions: %s", o.replyTo, t.Explain(err))
		}
		return r, r.Close, nil
	}
	client, err := t.Admin()
	if err != nil {
		return nil, nil, err
	}
	m.ReplyTo = "crosstown-reply-" + rand.Text()
	if _, err := client.CreateQueue(ctx, m.ReplyTo, &admin.CreateQueueOptions{Properties: &admin.QueueProperties{AutoDeleteOnIdle: new(core.FormatDuration(replyQueueLife))}}); err != nil {
		return nil, nil, fmt.Errorf("make a temporary queue for the reply: %w", err)
	}
	remove := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		_, _ = client.DeleteQueue(ctx, m.ReplyTo, nil) // else it is deleted when it has been idle
	}
	if r, err = link.Receiver(ctx, m.ReplyTo, removing); err != nil {
		remove()
		return nil, nil, err
	}
	return r, func() {
		r.Close()
		remove()
	}, nil
}

// sendOne sends a message.
func sendOne(ctx context.Context, link *remote.Client, entity string, m *core.Message) error {
	sender, err := link.Sender(ctx, entity)
	if err != nil {
		return err
	}
	defer sender.Close()
	if err := sender.Add(ctx, m); err != nil {
		return err
	}
	return sender.Flush(ctx)
}

// awaitReply waits for the message that has a correlation id.
func awaitReply(ctx context.Context, r *remote.Receiver, id string, notes io.Writer) ([]remote.Taken, error) {
	for {
		ts, err := r.Take(ctx, 1, always)
		if err != nil {
			return nil, err
		}
		for i := range ts {
			got := ts[i].CorrelationID.String()
			if got == id {
				return ts[i : i+1], nil
			}
			_, _ = fmt.Fprintf(notes, "a message was passed over, because its correlation id is not that of the request: %q, want %q\n", got, id)
		}
	}
}
