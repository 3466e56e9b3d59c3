package entities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/bridges/https"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/internal/spelling"
)

func Rule(environ []string) *cobra.Command {
	rule := command.Group(&cobra.Command{
		Use:   "rule",
		Short: "Create, list, show, update, delete and test the rules of subscriptions",
		Long: `Create, list, show, update, delete and test the rules of subscriptions.

A subscription gets the messages that at least one of its rules matches. A rule has a SQL
expression or a correlation filter; a rule without either matches all messages. If a rule has an
action, the subscription gets a separate copy of each matching message, which the action
changes.

A VALUE that looks like a whole number, a number, true or false has that type. Every other VALUE
is a string, and so is a VALUE in double quotes, such as "5".`,
		Example: `  crosstown rule create events eu large --sql "amount > @limit" --parameter limit=100 --action "SET priority = 'high'"
  crosstown rule create events eu parcels --correlation label=parcel --property express=true
  crosstown rule delete events eu '$Default'
  crosstown rule list events eu`,
	})
	rule.AddCommand(
		putRule(environ, "create", "Create a rule", "created", (*https.AdminClient).CreateRule),
		putRule(environ, "update", "Replace a rule", "updated", (*https.AdminClient).UpdateRule),
		managing(environ, "list TOPIC SUBSCRIPTION", "List a subscription's rules", listRules),
		managing(environ, "show TOPIC SUBSCRIPTION NAME", "Show a rule", showRule),
		managing(environ, "delete TOPIC SUBSCRIPTION NAME", "Delete a rule", func(ctx context.Context, m *manager) error {
			return m.done(m.DeleteRule(ctx, command.AnyIdentity, m.name(), m.args[2]), "deleted", "rule", m.ruleName())
		}),
		ruleTestCommand(environ),
	)
	return rule
}

type ruleOptions struct {
	name             string
	sql              string
	parameters       []string
	correlation      []string
	properties       []string
	none             bool
	action           string
	actionParameters []string
}

func (o *ruleOptions) bind(f *pflag.FlagSet) {
	f.StringVar(&o.sql, "sql", "", "SQL filter: match messages for which this `expression` is true")
	f.StringArrayVar(&o.parameters, "parameter", nil, "value of @NAME in --sql, `NAME=VALUE`; repeatable")
	f.StringArrayVar(&o.correlation, "correlation", nil, "correlation filter: match messages whose broker property has this value, `NAME=VALUE` with one of the names "+strings.Join(correlationNames, ", ")+"; repeatable")
	f.StringArrayVar(&o.properties, "property", nil, "correlation filter: match messages whose user property has this value, `NAME=VALUE`; 5 and true are a number and a boolean, and \"5\" is a string; repeatable")
	f.BoolVar(&o.none, "match-none", false, "create a rule that matches no messages")
	f.StringVar(&o.action, "action", "", "SQL `action` that changes the copy of a matching message, such as SET a = 'b' REMOVE c")
	f.StringArrayVar(&o.actionParameters, "action-parameter", nil, "value of @NAME in --action, `NAME=VALUE`; repeatable")
}

func (o *ruleOptions) rule() (*core.Rule, error) {
	var errs []error
	r := &core.Rule{Name: o.name, Filter: core.Filter{Kind: core.TrueFilter}, Action: o.action}
	read := func(flag string, texts []string, prefix string) core.Properties {
		p, err := command.Properties(flag, texts, prefix)
		errs = append(errs, err)
		return p
	}
	correlated := len(o.correlation)+len(o.properties) > 0
	switch {
	case o.sql != "" && correlated, o.none && (o.sql != "" || correlated):
		errs = append(errs, errors.New("a rule has only one filter: use either --sql, or --match-none, or --correlation and --property, or create several rules"))
	case o.sql != "":
		r.Filter = core.Filter{Kind: core.SQLFilter, SQL: o.sql, Parameters: read("--parameter", o.parameters, "@")}
	case correlated:
		f, wrong := correlationOf("--correlation", o.correlation)
		errs = append(errs, wrong...)
		f.Properties = read("--property", o.properties, "")
		r.Filter = core.Filter{Kind: core.CorrelationFilter, Correlation: f}
	case o.none:
		r.Filter.Kind = core.FalseFilter
	}
	if len(o.parameters) > 0 && o.sql == "" {
		errs = append(errs, errors.New("--parameter requires --sql, which uses the parameter"))
	}
	if len(o.actionParameters) > 0 && o.action == "" {
		errs = append(errs, errors.New("--action-parameter requires --action, which uses the parameter"))
	}
	if o.action != "" {
		r.ActionParameters = read("--action-parameter", o.actionParameters, "@")
	}
	return r, command.Usage(errors.Join(errs...))
}

func correlationOf(flag string, texts []string) (f *core.Correlation, errs []error) {
	f = new(core.Correlation)
	fields := maps.Collect(conditions(f))
	for _, text := range texts {
		if name, value, valued := strings.Cut(text, "="); valued && fields[name] != nil {
			*fields[name] = &value
		} else {
			errs = append(errs, fmt.Errorf("%s is %q: write NAME=VALUE with one of the names %s", flag, text, strings.Join(correlationNames, ", ")))
		}
	}
	return f, errs
}

func conditions(f *core.Correlation) iter.Seq2[string, **string] {
	return func(yield func(string, **string) bool) {
		for name, field := range f.Conditions() {
			if !yield(spelling.Hyphenated(name), field) {
				return
			}
		}
	}
}

var correlationNames = func() (names []string) {
	for name := range conditions(new(core.Correlation)) {
		names = append(names, name)
	}
	return names
}()

func (m *manager) ruleName() string { return m.name() + "/Rules/" + m.args[2] }

func putRule(environ []string, use, short, did string, put func(*https.AdminClient, context.Context, core.Identity, string, core.Rule) (core.Rule, error)) *cobra.Command {
	var o ruleOptions
	c := managing(environ, use+" TOPIC SUBSCRIPTION NAME", short, func(ctx context.Context, m *manager) error {
		o.name = m.args[2]
		r, err := o.rule()
		if err != nil {
			return err
		}
		_, err = put(m.AdminClient, ctx, command.AnyIdentity, m.name(), *r)
		return m.done(err, did, "rule", m.ruleName())
	})
	o.bind(c.Flags())
	return c
}

func showRule(ctx context.Context, m *manager) error {
	r, err := m.Rule(ctx, command.AnyIdentity, m.name(), m.args[2])
	if err != nil {
		return missing(err, "rule", m.ruleName())
	}
	s := showRuleOf(&r)
	return m.Print(m.command, s, func(w io.Writer) error {
		table := command.NewTable(w)
		table.Row(s.Name, "")
		table.Row("filter", s.filter())
		table.Row("action", s.action())
		return table.Flush()
	})
}

func listRules(ctx context.Context, m *manager) error {
	all, err := m.Rules(ctx, command.AnyIdentity, m.name(), 0, math.MaxInt32)
	if err != nil {
		return err
	}
	rows := m.Rows(m.command, "RULE", "FILTER", "ACTION")
	for i := range all {
		s := showRuleOf(&all[i])
		rows.Add(s, s.Name, s.filter(), s.action())
	}
	return rows.Flush()
}

type shownRule struct {
	Name             string            `json:"name"`
	Filter           string            `json:"filter"` // sql, true, false or correlation
	SQL              string            `json:"sql,omitempty"`
	Parameters       map[string]any    `json:"parameters,omitempty"`
	Correlation      map[string]string `json:"correlation,omitempty"`
	Properties       map[string]any    `json:"properties,omitempty"`
	Action           string            `json:"action,omitempty"`
	ActionParameters map[string]any    `json:"actionParameters,omitempty"`
}

func showRuleOf(r *core.Rule) shownRule {
	s := shownRule{
		Name: r.Name, Filter: r.Filter.Kind.String(), SQL: r.Filter.SQL, Parameters: plain(r.Filter.Parameters),
		Action: r.Action, ActionParameters: plain(r.ActionParameters),
	}
	if f := r.Filter.Correlation; f != nil {
		s.Correlation, s.Properties = map[string]string{}, plain(f.Properties)
		for name, field := range conditions(f) {
			if *field != nil {
				s.Correlation[name] = **field
			}
		}
	}
	return s
}

func plain(p core.Properties) map[string]any {
	values := map[string]any{}
	for name, v := range p.All() {
		switch typed := v.(type) {
		case value.Timestamp:
			v = typed.Time()
		case value.UUID, value.Char, value.Described:
			v = value.Text(v)
		}
		values[name] = v
	}
	return values
}

func (s *shownRule) filter() string {
	switch s.Filter {
	case "sql":
		return s.SQL + shownPairs(s.Parameters)
	case "correlation":
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(s.Correlation)) {
			parts = append(parts, name+"="+strconv.Quote(s.Correlation[name]))
		}
		return strings.TrimSpace(strings.Join(parts, " ") + shownPairs(s.Properties))
	default:
		return s.Filter
	}
}

func (s *shownRule) action() string { return s.Action + shownPairs(s.ActionParameters) }

func shownPairs(values map[string]any) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if text, ok := values[name].(string); ok {
			fmt.Fprintf(&b, " %s=%q", name, text)
		} else {
			fmt.Fprintf(&b, " %s=%v", name, values[name])
		}
	}
	return b.String()
}
