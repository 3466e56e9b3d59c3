package entities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/rules"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/cli/messages"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

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
