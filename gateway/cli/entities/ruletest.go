package entities

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/bridges/typedjson"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

type ruleTestOptions struct {
	command.Flags
	record      string
	rules       string
	body        string
	properties  []string
	correlation []string
}

func ruleTestCommand(environ []string) *cobra.Command {
	var o ruleTestOptions
	c := &cobra.Command{
		Use:   "test TOPIC [SUBSCRIPTION]",
		Short: "Print which rules match a message, and why",
		Long: `Print which rules match a message, and why, without sending the message. The command tests the
rules of all subscriptions of a topic, or of one subscription, which can also be written
TOPIC/Subscriptions/NAME. The flags describe the message, or the message is a line that
crosstown record or receive --json prints. If the topic would refuse the message, the command
prints the same error.

The command needs a Crosstown gateway and a policy with Manage. The exit code is 4 if no rule
matches.

With --rules the command compares the topic's rules with those in a configuration file, for all
messages of a recording. For each subscription in the file the command prints how many messages
the new rules would add, remove or change, and the first three messages of each kind with the
reasons. The command skips subscriptions that the file does not list. Bodies are read as JSON or
AMQP values; rules that call plugins cannot be compared.`,
		Example: `  crosstown rule test events --property region=eu --property amount=250
  crosstown rule test events eu --broker label=parcel --body '{"total":5}' --broker content-type=application/json
  crosstown peek orders --count 1 --json | crosstown rule test events --record -
  crosstown rule test events --rules new.yaml --record yesterday.jsonl`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.Bind(c, environ)
	f := c.Flags()
	f.StringArrayVar(&o.properties, "property", nil, "user property, `NAME=VALUE`; 5 and true are a number and a boolean, and \"5\" is a string; repeatable")
	f.StringArrayVar(&o.correlation, "broker", nil, "broker property, `NAME=VALUE` with one of the names "+strings.Join(correlationNames, ", ")+"; repeatable")
	f.StringVar(&o.body, "body", "", "body of the message, a `text`")
	f.StringVar(&o.record, "record", "", "`file` whose first line is the message; - is standard input")
	f.StringVar(&o.rules, "rules", "", "configuration `file` with new rules: compare their results with those of the topic's rules, for all messages of --record")
	c.MarkFlagsMutuallyExclusive("record", "property")
	c.MarkFlagsMutuallyExclusive("record", "broker")
	c.MarkFlagsMutuallyExclusive("record", "body")
	return c
}

func (o *ruleTestOptions) run(c *cobra.Command, args []string) error {
	entity := command.Named(args)
	if o.rules != "" {
		return o.compare(c, args)
	}
	line, err := o.message(c)
	if err != nil {
		return err
	}
	var answer api.Judgements
	q := command.AboutEntity(http.MethodPost, api.RulesPath, entity)
	q.Lines = line
	err = o.Ask(c.Context(), q, &answer)
	if refused, ok := errors.AsType[*command.Refusal](err); ok && !refused.Told {
		return fmt.Errorf("%w: only a Crosstown gateway can test rules", err)
	}
	if command.IsMissing(err) {
		return fmt.Errorf("%w: list the names with: crosstown topic list, or subscription list TOPIC", err)
	}
	if err != nil {
		return err
	}
	return o.tell(c, entity, answer.Judgements)
}

func (o *ruleTestOptions) message(c *cobra.Command) ([]byte, error) {
	if o.record != "" {
		in, err := command.OpenInput(c, o.record)
		if err != nil {
			return nil, err
		}
		defer func() { _ = in.Close() }() // ignore the error: in was only read
		line, err := bufio.NewReader(in).ReadBytes('\n')
		switch {
		case len(line) > 0:
		case errors.Is(err, io.EOF):
			return nil, command.Usagef("--record: the input is empty: write a message as crosstown record prints it")
		default:
			return nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		stored, _, err := record.Parse(line)
		if err == nil && stored == nil {
			err = errors.New("the line contains no message")
		}
		if err != nil {
			return nil, command.Usagef("--record: cannot use the first line: %w", err)
		}
		return line, nil
	}
	f, errs := correlationOf("--broker", o.correlation)
	properties, err := command.Properties("--property", o.properties, "")
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, command.Usage(err)
	}
	m := &record.Message{
		State: "active", Body: o.body, To: f.To, ReplyTo: f.ReplyTo, Subject: f.Label, SessionID: f.SessionID,
		ReplyToSessionID: f.ReplyToSessionID, ContentType: f.ContentType,
	}
	if f.MessageID != nil {
		m.MessageID = typedjson.Value(*f.MessageID)
	}
	if f.CorrelationID != nil {
		m.CorrelationID = typedjson.Value(*f.CorrelationID)
	}
	if !properties.IsEmpty() {
		m.Properties = typedjson.Properties(properties)
	}
	return json.Marshal(&record.Line{Message: m})
}

func (o *ruleTestOptions) tell(c *cobra.Command, entity string, all []api.Judgement) error {
	err := o.Print(c, all, func(w io.Writer) error {
		var b strings.Builder
		for i := range all {
			j := &all[i]
			verdict := "does not match"
			switch {
			case j.Error != "":
				verdict = "fails: " + j.Error
			case j.Matched:
				verdict = "matches"
			}
			fmt.Fprintf(&b, "%s  %s  %s\n", j.Subscription, j.Rule, verdict)
			for _, why := range j.Why {
				fmt.Fprintf(&b, "    %s\n", why)
			}
		}
		_, err := io.WriteString(w, b.String())
		return err
	})
	if err == nil && !slices.ContainsFunc(all, func(j api.Judgement) bool { return j.Matched && j.Error == "" }) {
		err = command.Nothingf("%s: none of the rules matches (number of rules: %d)", entity, len(all))
	}
	return err
}
