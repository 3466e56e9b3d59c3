package entities

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
)

// Rule is crosstown rule.
func Rule(environ []string) *cobra.Command {
	rule := command.Group(&cobra.Command{
		Use:   "rule",
		Short: "Create, list, show, update, delete and test the rules of subscriptions",
		Long: `Create, list, show, update and delete the rules of subscriptions.

A subscription gets the messages that one of its rules matches: by a SQL
expression, by correlation, or all with neither. A rule with an action makes a
copy of its own, which the action changes.

A VALUE is a whole number, a number, true or false where it reads like one, and
else a text; "5" in double quotes is a text, too.`,
		Example: `  crosstown rule create events eu large --sql "amount > @limit" --parameter limit=100 --action "SET priority = 'high'"
  crosstown rule create events eu parcels --correlation label=parcel --property express=true
  crosstown rule delete events eu '$Default'
  crosstown rule list events eu`,
	})
	changing := func(use, short string, run func(*manager, *ruleOptions) error) *cobra.Command {
		var o ruleOptions
		c := managing(environ, use, short, func(m *manager) error { return run(m, &o) })
		o.bind(c.Flags())
		return c
	}
	rule.AddCommand(
		changing("create TOPIC SUBSCRIPTION NAME", "Create a rule", createRule),
		changing("update TOPIC SUBSCRIPTION NAME", "Replace a rule", updateRule),
		managing(environ, "list TOPIC SUBSCRIPTION", "List a subscription's rules", listRules),
		managing(environ, "show TOPIC SUBSCRIPTION NAME", "Show a rule", showRule),
		managing(environ, "delete TOPIC SUBSCRIPTION NAME", "Delete a rule", deleteRule),
		ruleTestCommand(environ),
	)
	return rule
}

// ruleOptions are the flags that make a rule.
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
	f.StringVar(&o.sql, "sql", "", "SQL filter: match where this `expression` is true")
	f.StringArrayVar(&o.parameters, "parameter", nil, "value of @NAME in --sql, `NAME=VALUE`; repeatable")
	f.StringArrayVar(&o.correlation, "correlation", nil, "correlation filter: match where this property is equal, `NAME=VALUE` with one of the names "+strings.Join(correlationNames, ", ")+"; repeatable")
	f.StringArrayVar(&o.properties, "property", nil, "correlation filter: match where this user property is equal, `NAME=VALUE` as for send; repeatable")
	f.BoolVar(&o.none, "match-none", false, "match no message")
	f.StringVar(&o.action, "action", "", "SQL `action` that changes the copy of a matching message, such as SET a = 'b' REMOVE c")
	f.StringArrayVar(&o.actionParameters, "action-parameter", nil, "value of @NAME in --action, `NAME=VALUE`; repeatable")
}

// rule makes the rule that the flags ask for; nil if they say nothing.
func (o *ruleOptions) rule() (*admin.RuleProperties, error) {
	var errs []error
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	r := &admin.RuleProperties{Name: o.name}
	correlated := len(o.correlation)+len(o.properties) > 0
	switch {
	case o.sql != "" && correlated, o.none && (o.sql != "" || correlated):
		note(errors.New("--sql, --match-none, and --correlation with --property exclude each other: make several rules"))
	case o.sql != "":
		parameters, err := command.Pairs("--parameter", o.parameters, "@")
		note(err)
		r.Filter = &admin.SQLFilter{Expression: o.sql, Parameters: parameters}
	case correlated:
		f, err := o.correlationFilter()
		note(err)
		r.Filter = f
	case o.none:
		r.Filter = &admin.FalseFilter{}
	}
	if len(o.parameters) > 0 && o.sql == "" {
		note(errors.New("--parameter: there is no --sql that could use it"))
	}
	if len(o.actionParameters) > 0 && o.action == "" {
		note(errors.New("--action-parameter: there is no --action that could use it"))
	}
	if o.action != "" {
		parameters, err := command.Pairs("--action-parameter", o.actionParameters, "@")
		note(err)
		r.Action = &admin.SQLAction{Expression: o.action, Parameters: parameters}
	}
	if r.Filter == nil && r.Action == nil && (o.name == "" || o.name == core.DefaultRuleName) && len(errs) == 0 {
		return nil, nil
	}
	return r, command.Usage(errors.Join(errs...))
}

// correlationNames are the properties that --correlation knows.
var correlationNames = []string{"correlation-id", "message-id", "to", "reply-to", "label", "session-id", "reply-to-session-id", "content-type"}

func (o *ruleOptions) correlationFilter() (*admin.CorrelationFilter, error) {
	f := &admin.CorrelationFilter{}
	fields := []**string{&f.CorrelationID, &f.MessageID, &f.To, &f.ReplyTo, &f.Subject, &f.SessionID, &f.ReplyToSessionID, &f.ContentType}
	var errs []error
	for _, text := range o.correlation {
		name, value, _ := strings.Cut(text, "=")
		i := slices.Index(correlationNames, name)
		if i < 0 || !strings.Contains(text, "=") {
			errs = append(errs, fmt.Errorf("--correlation: %q: write NAME=VALUE with one of the names %s", text, strings.Join(correlationNames, ", ")))
			continue
		}
		*fields[i] = &value
	}
	var err error
	f.ApplicationProperties, err = command.Pairs("--property", o.properties, "")
	return f, errors.Join(append(errs, err)...)
}

// ruleName is the subscription's path and the rule's name.
func (m *manager) ruleName() string { return m.name() + "/Rules/" + m.args[2] }

func createRule(m *manager, o *ruleOptions) error {
	r, err := o.rule()
	if err != nil {
		return err
	}
	if r == nil {
		r = &admin.RuleProperties{}
	}
	made := &admin.CreateRuleOptions{Name: &m.args[2], Filter: r.Filter, Action: r.Action}
	if _, err := m.CreateRule(m.command.Context(), m.args[0], m.args[1], made); err != nil {
		return err
	}
	return m.say("created", "rule", m.ruleName())
}

func updateRule(m *manager, o *ruleOptions) error {
	r, err := o.rule()
	if err != nil {
		return err
	}
	if r == nil {
		r = &admin.RuleProperties{}
	}
	r.Name = m.args[2]
	if _, err := m.UpdateRule(m.command.Context(), m.args[0], m.args[1], *r); err != nil {
		return err
	}
	return m.say("updated", "rule", m.ruleName())
}

func deleteRule(m *manager) error {
	if _, err := m.DeleteRule(m.command.Context(), m.args[0], m.args[1], m.args[2], nil); err != nil {
		return err
	}
	return m.say("deleted", "rule", m.ruleName())
}

func showRule(m *manager) error {
	r, err := m.GetRule(m.command.Context(), m.args[0], m.args[1], m.args[2], nil)
	if err != nil {
		return err
	}
	if r == nil {
		return missing("rule", m.ruleName())
	}
	s := showRuleOf(r.RuleProperties)
	if m.JSON {
		return json.NewEncoder(m.out()).Encode(s)
	}
	table := tabwriter.NewWriter(m.out(), 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "%s\t\nfilter\t%s\naction\t%s\n", s.Name, s.filter(), s.action())
	return table.Flush()
}

func listRules(m *manager) error {
	table := tabwriter.NewWriter(m.out(), 0, 0, 2, ' ', 0)
	if !m.JSON {
		_, _ = fmt.Fprintln(table, "RULE\tFILTER\tACTION")
	}
	lines := json.NewEncoder(m.out())
	for pages := m.NewListRulesPager(m.args[0], m.args[1], nil); pages.More(); {
		page, err := pages.NextPage(m.command.Context())
		if err != nil {
			return err
		}
		for _, r := range page.Rules {
			s := showRuleOf(r)
			if !m.JSON {
				_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", s.Name, s.filter(), s.action())
			} else if err := lines.Encode(s); err != nil {
				return err
			}
		}
	}
	return table.Flush()
}

// shownRule is a rule as --json prints it.
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

func showRuleOf(r admin.RuleProperties) shownRule {
	s := shownRule{Name: r.Name, Filter: "unknown"}
	switch f := r.Filter.(type) {
	case *admin.TrueFilter:
		s.Filter = "true"
	case *admin.FalseFilter:
		s.Filter = "false"
	case *admin.SQLFilter:
		s.Filter, s.SQL, s.Parameters = "sql", f.Expression, f.Parameters
	case *admin.CorrelationFilter:
		s.Filter, s.Correlation, s.Properties = "correlation", map[string]string{}, f.ApplicationProperties
		for i, v := range []*string{f.CorrelationID, f.MessageID, f.To, f.ReplyTo, f.Subject, f.SessionID, f.ReplyToSessionID, f.ContentType} {
			if v != nil {
				s.Correlation[correlationNames[i]] = *v
			}
		}
	}
	if a, ok := r.Action.(*admin.SQLAction); ok {
		s.Action, s.ActionParameters = a.Expression, a.Parameters
	}
	return s
}

// filter shows the filter to a person.
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
