package messages

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

var messageFlags = []string{
	"count", "property", "content-type", "message-id", "correlation-id", "subject", "session", "to", "reply-to", "reply-to-session",
	"partition-key", "schedule", "ttl",
}

const maxUnscheduled = 1000

type sendOptions struct {
	command.Flags
	file          string
	records       bool
	count         int
	message       core.Message
	properties    []string
	messageID     string
	correlationID string
	session       string
	schedule      string
	ttl           string
}

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
	f.StringVar(&o.file, "file", "", "send the whole `file` as the body of one message")
	f.BoolVar(&o.records, "records", false, "send the messages of a recording: each line of standard input, or of --file, is a message as crosstown record, receive --json or backup prints it; properties keep their types")
	f.IntVar(&o.count, "count", 1, "how many times to send each message")
	f.StringArrayVar(&o.properties, "property", nil, "user property, `NAME=VALUE`; 5 and true are a number and a boolean, and \"5\" is a string; repeatable")
	f.StringVar(&o.message.ContentType, "content-type", "", "content type of the body")
	f.StringVar(&o.messageID, "message-id", "", "message id (default: a random one for each message)")
	f.StringVar(&o.correlationID, "correlation-id", "", "correlation id")
	f.StringVar(&o.message.Subject, "subject", "", "subject, also called label")
	f.StringVar(&o.session, "session", "", "`id` of the session that the messages belong to")
	f.StringVar(&o.message.To, "to", "", "property To of the message, a logical destination")
	f.StringVar(&o.message.ReplyTo, "reply-to", "", "`entity` that a reply goes to")
	f.StringVar(&o.message.ReplyToSessionID, "reply-to-session", "", "`id` of the session that a reply belongs to")
	f.StringVar(&o.message.PartitionKey, "partition-key", "", "partition key: messages with the same key stay in order")
	f.StringVar(&o.schedule, "schedule", "", "earliest `time` of delivery: 10m from now, or 2031-01-02T15:04:05Z")
	f.StringVar(&o.ttl, "ttl", "", "time to live, a `duration` such as 1h")
	return c
}

func (o *sendOptions) run(c *cobra.Command, args []string) error {
	template, err := o.template(time.Now())
	if err != nil {
		return err
	}
	for _, name := range messageFlags {
		if o.records && c.Flags().Changed(name) {
			return command.Usagef("--records cannot be combined with --%s, because each line contains a whole message", name)
		}
	}
	if o.records && len(args) > 1 {
		return command.Usagef("--records cannot be combined with a BODY, because messages are read from standard input or --file")
	}
	if c.Flags().Changed("session") { // a session id may be empty
		template.SessionID, template.EmptyText = o.session, core.FieldSessionID
	}
	t, entity, err := o.TargetEntity(args)
	if err != nil {
		return err
	}
	if o.records {
		return o.sendRecords(c, t, entity)
	}
	link, err := t.Link(c.Context(), entity)
	if err != nil {
		return t.Explain(err)
	}
	defer link.Close()
	sender, err := link.Sender(c.Context(), entity)
	if err != nil {
		return t.Explain(err)
	}
	s := &sending{ctx: c.Context(), sender: sender, template: template, id: o.messageID, progress: command.NewProgress(c.ErrOrStderr(), "sent")}
	err = s.all(o.bodies(c.InOrStdin(), args), o.count)
	if err != nil && sender.Sent() == 0 {
		return t.Explain(err)
	}
	return errors.Join(t.Explain(err), o.report(c.OutOrStdout(), entity, sender.Sent(), s.numbers))
}

func (o *sendOptions) sendRecords(c *cobra.Command, t *command.Target, entity string) error {
	in, err := command.OpenInput(c, o.file)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // ignore the error: in was only read
	r := newReplayer(c, t, o.file, "sent")
	r.moved[""] = entity
	err = r.run(c.Context(), in)
	if err != nil && r.sent == 0 {
		return err
	}
	return errors.Join(err, o.report(c.OutOrStdout(), entity, r.sent, nil))
}

func (o *sendOptions) template(now time.Time) (*core.Message, error) {
	m := &o.message
	m.CorrelationID = idOf(o.correlationID)
	var err error
	m.Properties, err = command.Properties("--property", o.properties, "")
	errs := []error{err}
	if o.ttl != "" {
		m.TimeToLive, err = lifetime(o.ttl)
		errs = append(errs, err)
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
			errs = append(errs, fmt.Errorf("--schedule is %q: write a duration such as 10m, or a time such as 2031-01-02T15:04:05Z", o.schedule))
		}
		m.ScheduledEnqueueTime = at
	}
	if o.count < 1 {
		errs = append(errs, fmt.Errorf("--count is %d: use 1 or more", o.count))
	}
	return m, command.Usage(errors.Join(errs...))
}

// lifetime parses --ttl. It refuses less than 1 ms: AMQP sends whole ms, and 0 means not set.
func lifetime(text string) (time.Duration, error) {
	d, err := config.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("--ttl is %q: %w", text, err)
	case d < time.Millisecond:
		return 0, fmt.Errorf("--ttl is %q: use at least 1ms, or leave out --ttl to use the time to live of the entity", text)
	case d == core.Forever && !strings.EqualFold(text, "forever") && text != core.FormatDuration(core.Forever):
		return 0, fmt.Errorf("--ttl is %q: use at most %d days, or forever", text, core.Forever/(24*time.Hour))
	}
	return d, nil
}

func idOf(text string) (id core.ID) {
	if text != "" {
		id = core.StringID(text)
	}
	return id
}

type body struct {
	data []byte
	more bool // whether the next body is available without waiting
	err  error
}

// bodies yields the bodies to send. If a read fails, the last body contains the error.
func (o *sendOptions) bodies(stdin io.Reader, args []string) iter.Seq[body] {
	switch {
	case o.file != "":
		data, err := os.ReadFile(o.file)
		return slices.Values([]body{{data: data, err: err}})
	case len(args) > 1:
		var all []body
		for i, text := range args[1:] {
			all = append(all, body{data: []byte(text), more: i+2 < len(args)})
		}
		return slices.Values(all)
	}
	return lines(stdin)
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

type sending struct {
	ctx      context.Context
	sender   *remote.Sender
	template *core.Message
	id       string // id of all messages; "" means a random id for each
	progress *command.Progress

	scheduled []*core.Message // scheduled messages to send together
	numbers   []int64
}

func (s *sending) all(bodies iter.Seq[body], count int) error {
	for b := range bodies {
		if b.err != nil {
			return b.err
		}
		for range count {
			m := *s.template
			m.Body.Bytes, m.MessageID = b.data, idOf(cmp.Or(s.id, rand.Text()))
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

func (s *sending) add(m *core.Message) error {
	defer func() { s.progress.At(s.sender.Sent()) }()
	if !m.ScheduledEnqueueTime.IsZero() {
		if s.scheduled = append(s.scheduled, m); len(s.scheduled) == maxUnscheduled {
			return s.flush()
		}
		return nil
	}
	err := s.sender.Add(s.ctx, m)
	if errors.Is(err, remote.ErrTooLarge) {
		return fmt.Errorf("message %d: %w (its body has %d bytes): send a smaller message, or raise the limit with --max-message-size-in-kilobytes of crosstown queue update or topic update", s.sender.Sent()+1, err, len(m.Body.Bytes))
	}
	return err
}

func (s *sending) flush() error {
	if len(s.scheduled) > 0 {
		numbers, err := s.sender.Schedule(s.ctx, s.scheduled)
		if err != nil {
			return err
		}
		s.numbers = append(s.numbers, numbers...)
		s.scheduled = nil
	}
	err := s.sender.Flush(s.ctx)
	s.progress.At(s.sender.Sent())
	return err
}

func (o *sendOptions) report(w io.Writer, entity string, sent int, numbers []int64) error {
	if o.JSON {
		return command.NewEncoder(w).Encode(struct {
			Sent            int     `json:"sent"`
			SequenceNumbers []int64 `json:"sequenceNumbers,omitempty"`
		}{sent, numbers})
	}
	_, err := fmt.Fprintf(w, "sent %s to %s\n", command.Messages(sent), entity)
	if len(numbers) > 0 && err == nil {
		_, err = fmt.Fprintf(w, "sequence numbers: %v\n", numbers)
	}
	return err
}
