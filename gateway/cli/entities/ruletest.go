package entities

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/rules"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/cli/messages"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
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
	m := &core.Message{Properties: properties, Body: core.Body{Bytes: []byte(o.body)}}
	for name, given := range f.Conditions() {
		at := slices.IndexFunc(core.MessageFields[:], func(x core.MessageField) bool { return x.Name == name })
		if *given != nil && **given != "" {
			core.MessageFields[at].Set(m, **given)
		}
	}
	made := record.Of(&core.Stored{Kind: core.StoredMessage, Delivery: core.Delivery{Message: m}}, "")
	return json.Marshal(&made)
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

const maxShown = 3

type trial struct {
	rules    [2][][]core.Rule // current rules and new rules, each by subscription
	compiled [2][][]*rules.Rule
	totals   []outcome // one for each subscription
}

// outcome compares the new rules with the current ones. Failing counts messages that newly fail.
type outcome struct {
	Subscription string   `json:"subscription"`
	Messages     int      `json:"messages"`
	Added        int      `json:"added"`
	Removed      int      `json:"removed"`
	Changed      int      `json:"changed"` // messages whose copies differ, for example by an action
	Failing      int      `json:"failing"`
	First        []change `json:"first,omitempty"`
}

type change struct {
	Change    string   `json:"change"`
	Line      int      `json:"line"`
	MessageID string   `json:"messageId,omitempty"`
	Why       []string `json:"why"`
}

func (o *ruleTestOptions) compare(c *cobra.Command, args []string) error {
	if o.record == "" {
		return command.Usagef("--rules: specify the recorded messages with --record FILE")
	}
	in, err := command.OpenInput(c, o.record)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // ignore the error: in was only read
	wanted, err := config.Check(o.rules, o.Environ)
	if err != nil {
		return command.Usage(err)
	}
	i := slices.IndexFunc(wanted.Topics, func(t config.Topic) bool { return strings.EqualFold(t.Name, args[0]) })
	if i < 0 {
		return command.Usagef("--rules: %s has no topic %q: list it under topics, with its subscriptions and their rules", o.rules, args[0])
	}
	t, err := o.Target()
	if err != nil {
		return err
	}
	var tr trial
	client := t.Management(nil)
	client.Attempts = 1
	for _, s := range wanted.Topics[i].Subscriptions {
		if len(args) > 1 && !strings.EqualFold(s.Name, args[1]) {
			continue
		}
		after, err := config.Compiled(s.Rules)
		if err != nil {
			return command.Usage(err)
		}
		if len(after) == 0 {
			after = []core.Rule{{Name: core.DefaultRuleName, Filter: core.Filter{Kind: core.TrueFilter}}}
		}
		before, err := client.Rules(c.Context(), command.AnyIdentity, core.SubscriptionPath(args[0], s.Name), 0, math.MaxInt32)
		if err != nil && !errors.Is(err, core.NotFound) { // NotFound: a new subscription has no current rules
			return t.Explain(err)
		}
		if err := tr.add(s.Name, before, after); err != nil {
			return err
		}
	}
	if len(tr.totals) == 0 {
		return command.Usagef("--rules: %s has no subscription to compare", o.rules)
	}
	if err := tr.read(c.Context(), in); err != nil {
		return command.Usagef("--record: %w", err)
	}
	return o.Print(c, tr.totals, tr.tell)
}

func (t *trial) add(name string, sides ...[]core.Rule) error {
	for side, all := range sides {
		compiled := make([]*rules.Rule, len(all))
		for i, r := range all {
			var err error
			if compiled[i], err = rules.Compile(r); err != nil {
				return command.Usage(err)
			}
			if len(compiled[i].Calls()) > 0 {
				return command.Usagef("rule %s of %s calls a plugin, which only a gateway can do: test the rule with a temporary subscription", r.Name, name)
			}
		}
		t.rules[side], t.compiled[side] = append(t.rules[side], all), append(t.compiled[side], compiled)
	}
	t.totals = append(t.totals, outcome{Subscription: name})
	return nil
}

func (t *trial) read(ctx context.Context, in io.Reader) error {
	sets := [2]*rules.Set{rules.NewSet(t.compiled[0]), rules.NewSet(t.compiled[1])}
	return messages.EachRecorded(in, func(line int, stored *core.Stored) error {
		t.judge(line, stored, sets)
		return ctx.Err()
	})
}

func (t *trial) judge(line int, stored *core.Stored, sets [2]*rules.Set) {
	f := rules.Facts{EnqueuedTime: stored.EnqueuedTime, Body: messages.BodyFields}
	var got [2][][]string // copies of the message, by current or new rules and by subscription
	var failed [2][]int
	for side, set := range sets {
		got[side], failed[side] = make([][]string, len(t.totals)), make([]int, len(t.totals))
		for _, c := range set.Match(nil, stored.Message, f) {
			if c.Err != nil {
				failed[side][c.Sub]++
				continue
			}
			text, _ := json.Marshal(record.Of(&core.Stored{Kind: core.StoredMessage, Delivery: core.Delivery{Message: c.Message}}, ""))
			got[side][c.Sub] = append(got[side][c.Sub], string(text))
		}
	}
	for sub := range t.totals {
		was, is, o := got[0][sub], got[1][sub], &t.totals[sub]
		slices.Sort(was)
		slices.Sort(is)
		o.Messages++
		note := func(what string, n *int) {
			if *n++; *n <= maxShown {
				o.First = append(o.First, change{what, line, stored.MessageID.String(), t.why(sub, stored.Message, f)})
			}
		}
		switch {
		case len(was) == 0 && len(is) > 0:
			note("added", &o.Added)
		case len(was) > 0 && len(is) == 0:
			note("removed", &o.Removed)
		case !slices.Equal(was, is):
			note("changed", &o.Changed)
		}
		if failed[1][sub] > failed[0][sub] {
			note("failing", &o.Failing)
		}
	}
}

// why explains the results of a subscription's new rules. It puts matching rules first.
func (t *trial) why(sub int, m *core.Message, f rules.Facts) (all []string) {
	for _, r := range t.rules[1][sub] {
		e := rules.Explain(r, m, f)
		text := r.Name + ": " + strings.Join(e.Why, "; ")
		if e.Err != nil {
			text += " (" + core.TextOf(e.Err) + ")"
		}
		if e.Truth == rules.True {
			all = slices.Insert(all, 0, text)
		} else {
			all = append(all, text)
		}
	}
	return all[:min(len(all), maxShown)]
}

func (t *trial) tell(out io.Writer) error {
	var b strings.Builder
	for _, o := range t.totals {
		fmt.Fprintf(&b, "%s  of %s: %d added, %d removed, %d changed, %d failing\n", o.Subscription, command.Messages(o.Messages), o.Added, o.Removed, o.Changed, o.Failing)
		for _, c := range o.First {
			fmt.Fprintf(&b, "  %s  line %d  %s\n", c.Change, c.Line, c.MessageID)
			for _, why := range c.Why {
				fmt.Fprintf(&b, "    %s\n", why)
			}
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
