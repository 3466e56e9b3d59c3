package messages

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// messageFlags say what a message has.
var messageFlags = []string{
	"count", "property", "content-type", "message-id", "correlation-id", "subject", "session", "to", "reply-to", "reply-to-session",
	"partition-key", "schedule", "ttl",
}

// maxUnsent is how many messages are gathered at most before they are sent.
const maxUnsent = 1000

type sendOptions struct {
	command.Flags
	file          string
	records       bool
	count         int
	properties    []string
	contentType   string
	messageID     string
	correlationID string
	subject       string
	session       string
	to            string
	replyTo       string
	replySession  string
	partitionKey  string
	schedule      string
	ttl           string
}

// Send is crosstown send.
func Send(environ []string) *cobra.Command {
	var o sendOptions
	c := &cobra.Command{
		Use:   "send ENTITY [BODY…]",
		Short: "Send messages to a queue or topic: each BODY, a file, or each line of standard input",
		Example: `  crosstown send orders '{"id":1}' --content-type application/json --property region=eu
  crosstown send orders hello --count 1000
  journalctl -f | crosstown send log
  crosstown send orders later --schedule 10m
  crosstown send replies pong --session client-7
  crosstown receive orders --dlq --count 0 --json | crosstown send orders --records`,
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.Bind(c, environ)
	f := c.Flags()
	f.StringVar(&o.file, "file", "", "send the whole `file` as one message")
	f.BoolVar(&o.records, "records", false, "each line of standard input, or of --file, is a message as record or receive --json prints it, or a line of a backup; types are kept")
	f.IntVar(&o.count, "count", 1, "how many times to send each message")
	f.StringArrayVar(&o.properties, "property", nil, "user property, `NAME=VALUE`: a number or boolean where it reads as one, a text in double quotes; repeatable")
	f.StringVar(&o.contentType, "content-type", "", "content type of the body")
	f.StringVar(&o.messageID, "message-id", "", "message id (default: the gateway makes one)")
	f.StringVar(&o.correlationID, "correlation-id", "", "correlation id")
	f.StringVar(&o.subject, "subject", "", "subject, also called label")
	f.StringVar(&o.session, "session", "", "`id` of the session that the messages belong to")
	f.StringVar(&o.to, "to", "", "logical destination")
	f.StringVar(&o.replyTo, "reply-to", "", "`entity` that a reply goes to")
	f.StringVar(&o.replySession, "reply-to-session", "", "`id` of the session that a reply belongs to")
	f.StringVar(&o.partitionKey, "partition-key", "", "messages with the same key stay in order")
	f.StringVar(&o.schedule, "schedule", "", "earliest `time` of delivery: 10m from now, or 2031-01-02T15:04:05Z")
	f.StringVar(&o.ttl, "ttl", "", "time to live, a `duration` such as 1h")
	return c
}

func (o *sendOptions) run(c *cobra.Command, args []string) error {
	template, err := o.template(time.Now())
	if err != nil {
		return err
	}
	if o.records {
		for _, name := range messageFlags {
			if c.Flags().Changed(name) {
				return command.Usagef("--records: each line has all of its message: drop --%s", name)
			}
		}
		if len(args) > 1 {
			return command.Usagef("--records: messages come from standard input or --file: drop the BODY")
		}
	}
	if c.Flags().Changed("session") { // its id may be empty
		template.SessionID = &o.session
	}
	t, err := o.Target()
	if err != nil {
		return err
	}
	entity, err := t.Entity(args)
	if err != nil {
		return err
	}
	if o.records {
		return o.sendRecords(c, t, entity)
	}
	client, err := t.Client()
	if err != nil {
		return t.Explain(err)
	}
	defer func() { _ = client.Close(context.WithoutCancel(c.Context())) }()
	sender, err := client.NewSender(entity, nil)
	if err != nil {
		return t.Explain(err)
	}
	s := &sending{ctx: c.Context(), sender: sender, template: template, progress: command.NewProgress(c.ErrOrStderr(), "sent")}
	err = s.all(o.bodies(c.InOrStdin(), args), o.count)
	if err != nil && s.sent == 0 {
		return t.Explain(err)
	}
	return errors.Join(t.Explain(err), s.report(c.OutOrStdout(), entity, o.JSON))
}

// sendRecords sends the messages of standard input or of a file, as crosstown replay does.
func (o *sendOptions) sendRecords(c *cobra.Command, t *command.Target, entity string) error {
	in := c.InOrStdin()
	if o.file != "" {
		f, err := os.Open(o.file)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	r := newReplayer(c, t, cmp.Or(o.file, standardInput), "sent")
	r.moved[""] = entity
	err := r.run(c.Context(), in)
	if err != nil && r.sent == 0 {
		return err
	}
	return errors.Join(err, (&sending{sent: r.sent}).report(c.OutOrStdout(), entity, o.JSON))
}

// template makes the message that all are copies of, but for the body.
func (o *sendOptions) template(now time.Time) (*azservicebus.Message, error) {
	var errs []error
	m := &azservicebus.Message{
		ContentType: optional(o.contentType), MessageID: optional(o.messageID), CorrelationID: optional(o.correlationID),
		Subject: optional(o.subject), PartitionKey: optional(o.partitionKey),
		To: optional(o.to), ReplyTo: optional(o.replyTo), ReplyToSessionID: optional(o.replySession),
	}
	if len(o.properties) > 0 {
		var err error
		m.ApplicationProperties, err = command.Pairs("--property", o.properties, "")
		errs = append(errs, err)
	}
	if o.ttl != "" {
		ttl, err := config.ParseDuration(o.ttl)
		if err != nil {
			errs = append(errs, fmt.Errorf("--ttl: %q: %w", o.ttl, err))
		}
		m.TimeToLive = &ttl
	}
	if o.schedule != "" {
		at, err := time.Parse(time.RFC3339, o.schedule)
		if err != nil {
			var delay time.Duration
			if delay, err = config.ParseDuration(o.schedule); err == nil {
				at = now.Add(delay)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--schedule: %q: write a duration such as 10m, or a time such as 2031-01-02T15:04:05Z", o.schedule))
		}
		m.ScheduledEnqueueTime = &at
	}
	if o.count < 1 {
		errs = append(errs, fmt.Errorf("--count: %d: send each message at least once", o.count))
	}
	return m, command.Usage(errors.Join(errs...))
}

// body is one thing to send.
type body struct {
	data []byte
	more bool // another is at hand already
	err  error
}

// bodies yields what to send. An error is the last that it yields.
func (o *sendOptions) bodies(stdin io.Reader, args []string) iter.Seq[body] {
	switch {
	case o.file != "":
		return func(yield func(body) bool) {
			data, err := os.ReadFile(o.file)
			yield(body{data: data, err: err})
		}
	case len(args) > 1:
		return func(yield func(body) bool) {
			for i, text := range args[1:] {
				if !yield(body{data: []byte(text), more: i+2 < len(args)}) {
					return
				}
			}
		}
	default:
		return lines(stdin)
	}
}

func lines(r io.Reader) iter.Seq[body] {
	return func(yield func(body) bool) {
		in := bufio.NewReaderSize(r, 1<<16)
		for {
			line, err := in.ReadBytes('\n')
			if len(line) > 0 && !yield(body{data: bytes.TrimRight(line, "\r\n"), more: in.Buffered() > 0}) {
				return
			}
			if err != nil {
				if err != io.EOF {
					yield(body{err: err})
				}
				return
			}
		}
	}
}

// sending gathers messages into batches and sends them.
type sending struct {
	ctx      context.Context
	sender   *azservicebus.Sender
	template *azservicebus.Message
	progress *command.Progress

	scheduled []*azservicebus.Message // not sent yet
	batch     *azservicebus.MessageBatch
	sent      int
	numbers   []int64 // of scheduled messages
}

func (s *sending) all(bodies iter.Seq[body], count int) error {
	for b := range bodies {
		if b.err != nil {
			return b.err
		}
		for range count {
			m := *s.template
			m.Body = b.data
			if err := s.add(&m); err != nil {
				return err
			}
		}
		if !b.more {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return s.flush()
}

func (s *sending) add(m *azservicebus.Message) error {
	if m.ScheduledEnqueueTime != nil {
		if s.scheduled = append(s.scheduled, m); len(s.scheduled) == maxUnsent {
			return s.flush()
		}
		return nil
	}
	return s.batched(m)
}

// batched adds a message to the batch, which it sends once that is full.
func (s *sending) batched(m *azservicebus.Message) error {
	for {
		if s.batch == nil {
			var err error
			if s.batch, err = s.sender.NewMessageBatch(s.ctx, nil); err != nil {
				return err
			}
		}
		err := s.batch.AddMessage(m, nil)
		if err == nil && s.batch.NumMessages() < maxUnsent {
			return nil
		}
		full := err == nil || errors.Is(err, azservicebus.ErrMessageTooLarge) && s.batch.NumMessages() > 0
		switch {
		case full:
		case errors.Is(err, azservicebus.ErrMessageTooLarge):
			return s.alone(m)
		default:
			return fmt.Errorf("message %d: %w", s.sent+1, err)
		}
		if flushErr := s.flush(); err == nil || flushErr != nil {
			return flushErr
		}
	}
}

// alone sends a message that no batch holds: an entity may take messages that
// are larger than a batch may be.
func (s *sending) alone(m *azservicebus.Message) error {
	err := s.sender.SendMessage(s.ctx, m, nil)
	if errors.Is(err, azservicebus.ErrMessageTooLarge) {
		return fmt.Errorf("message %d: %w for the entity, with a body of %d bytes: see --max-message-size-in-kilobytes of crosstown queue update and topic update", s.sent+1, err, len(m.Body))
	}
	if err == nil {
		s.sent++
		s.progress.At(s.sent)
	}
	return err
}

// flush sends what was gathered.
func (s *sending) flush() error {
	if len(s.scheduled) > 0 {
		numbers, err := s.sender.ScheduleMessages(s.ctx, s.scheduled, *s.template.ScheduledEnqueueTime, nil)
		if err != nil {
			return err
		}
		s.numbers = append(s.numbers, numbers...)
		s.sent += len(s.scheduled)
		s.scheduled = nil
	}
	if s.batch != nil && s.batch.NumMessages() > 0 {
		if err := s.sender.SendMessageBatch(s.ctx, s.batch, nil); err != nil {
			return err
		}
		s.sent += int(s.batch.NumMessages())
		s.batch = nil
	}
	s.progress.At(s.sent)
	return nil
}

func (s *sending) report(w io.Writer, entity string, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(struct {
			Sent            int     `json:"sent"`
			SequenceNumbers []int64 `json:"sequenceNumbers,omitempty"`
		}{s.sent, s.numbers})
	}
	_, err := fmt.Fprintf(w, "sent %s to %s\n", command.Messages(s.sent), entity)
	if len(s.numbers) > 0 && err == nil {
		_, err = fmt.Fprintf(w, "sequence numbers: %v\n", s.numbers)
	}
	return err
}

// optional is nil for a text that was not given.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
