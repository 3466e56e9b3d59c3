package messages

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/payload"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
	"github.com/crosstown-mq/crosstown/gateway/internal/schema"
	"github.com/crosstown-mq/crosstown/plugins/builtin"
)

type schemaCheck struct {
	command.Flags
	entity      string
	refs        []string
	serializers []string

	chain           *payload.Chain
	set             *schema.Set
	rows            *command.Rows
	messages, wrong int
}

func Schema(environ []string) *cobra.Command {
	var o schemaCheck
	check := &cobra.Command{
		Use:   "check FILE [RECORDING…]",
		Short: "Compare messages with a JSON Schema",
		Long: `Compare the bodies of messages with the JSON Schema in FILE, in the same way as a gateway whose
configuration has this schema under schemas. The messages come from recordings, or with --entity
from an entity. RECORDING is a file with the lines that crosstown record, receive --json or
backup prints; - is standard input. The command removes and changes no messages.

The command prints the messages that do not match, with the path in the body and the rule of the
schema for each difference, but without values. The exit code is 1 if a message does not match,
and 4 if there is no message.`,
		Example: `  crosstown schema check order.json orders.jsonl
  crosstown schema check order.json --ref address.json --entity orders
  crosstown record orders --once | crosstown schema check order.json -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.Bind(check, environ)
	f := check.Flags()
	f.StringVar(&o.entity, "entity", "", "check the messages in this `queue` or TOPIC/Subscriptions/NAME")
	f.StringArrayVar(&o.refs, "ref", nil, "`file` with a schema to which the schema in FILE refers; repeatable")
	f.StringSliceVar(&o.serializers, "serializers", []string{builtin.JSON}, "serializers that decode bodies, in the order in which they are tried, as in the setting serializers.chain: "+strings.Join(builtin.Names(), ", "))
	c := command.Group(&cobra.Command{Use: "schema", Short: "Compare messages with JSON Schemas"})
	c.AddCommand(check)
	return c
}

func (o *schemaCheck) run(c *cobra.Command, args []string) (err error) {
	if (o.entity == "") == (len(args) == 1) {
		return command.Usagef("specify either recordings, or an entity with --entity")
	}
	var members []payload.Named
	for _, name := range o.serializers {
		s := builtin.Named(name)
		if s == nil {
			return command.Usagef("--serializers: %q is not built in: use %s", name, strings.Join(builtin.Names(), ", "))
		}
		members = append(members, payload.Named{Name: name, Serializer: s})
	}
	o.chain = payload.NewChain(nil, members...)
	if o.set, err = schema.New([]schema.Version{{File: args[0]}}, o.refs); err != nil {
		return command.Usage(err)
	}
	o.rows = o.Rows(c, "WHERE", "MESSAGE", "MISMATCH")
	for _, name := range args[1:] {
		if err := o.recording(c, name); err != nil {
			return err
		}
	}
	if o.entity != "" {
		all := chosen{Flags: o.Flags}
		if err := all.browsing(func(c *cobra.Command, b *browser) error {
			_, err := b.find(c.Context(), func(a *amqp.Arrival) error {
				return o.judge(fmt.Sprintf("%s:%d", b.entity, a.SequenceNumber), a.Message)
			})
			return err
		})(c, []string{o.entity}); err != nil {
			return err
		}
	}
	switch {
	case o.messages == 0:
		return command.Nothingf("the input has no messages")
	case o.wrong > 0:
		return errors.Join(o.rows.Flush(), fmt.Errorf("checked %s: %d did not match the schema %s", command.Messages(o.messages), o.wrong, args[0]))
	}
	return command.Line(c.ErrOrStderr(), "checked %s: all match the schema %s", command.Messages(o.messages), args[0])
}

func (o *schemaCheck) recording(c *cobra.Command, name string) error {
	in, err := command.OpenInput(c, name)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // ignore the error: in was only read
	err = EachRecorded(in, func(line int, stored *core.Stored) error {
		return o.judge(fmt.Sprintf("%s:%d", name, line), stored.Message)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// EachRecorded calls f for each recorded message. An error begins with the line number.
func EachRecorded(in io.Reader, f func(line int, stored *core.Stored) error) error {
	for line := range recordedLines(in) {
		err := line.err
		if err == nil && line.stored != nil {
			err = f(line.n, line.stored)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line.n, err)
		}
	}
	return nil
}

type recordedLine struct {
	n      int
	stored *core.Stored // nil if the line contains no message
	entity string
	more   bool
	err    error
}

func recordedLines(in io.Reader) iter.Seq[recordedLine] {
	return func(yield func(recordedLine) bool) {
		n := 0
		for line := range lines(in) {
			n++
			l := recordedLine{n: n, more: line.more, err: line.err}
			if l.err == nil && len(bytes.TrimSpace(line.data)) > 0 {
				l.stored, l.entity, l.err = record.Parse(line.data)
			}
			if !yield(l) {
				return
			}
		}
	}
}

func (o *schemaCheck) judge(where string, m *core.Message) error {
	why, err := o.set.Judge(m, o.chain.Body)
	o.messages++
	if err != nil || why == "" {
		return err
	}
	o.wrong++
	o.rows.Add(map[string]any{"where": where, "messageId": m.MessageID.String(), "mismatch": why}, where, preview(m.MessageID.String(), 36), why)
	return nil
}
