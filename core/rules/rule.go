package rules

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
)

// PropertyRuleName is the user property with the name of the rule. A copy has it if a rule with an
// action has made the copy.
const PropertyRuleName = "RuleName"

// Rule is a compiled rule. It is immutable and may be used by many goroutines.
type Rule struct {
	name      string
	sql       string // the text of the filter; errors name positions in it
	actionSQL string // the text of the action; errors name positions in it
	predicate predicate
	action    []statement // nil: none
	names     names       // the user properties that the predicate looks at
	calls     []Call      // of plugins in the predicate
}

// Compile parses a rule. It refuses a rule that it does not understand, or that is certain to fail,
// with core.InvalidArgument. The text contains the rule, the position in the SQL text and the
// reason.
func Compile(r core.Rule) (*Rule, error) {
	c := &Rule{name: r.Name, sql: r.Filter.SQL, actionSQL: r.Action}
	var err error
	if c.predicate, err = c.compileFilter(r.Filter); err != nil {
		return nil, err
	}
	if strings.TrimSpace(r.Action) == "" {
		return c, nil
	}
	if err := c.checkText(actionText, r.Action); err != nil {
		return nil, err
	}
	inAction := &names{}
	if c.action, err = parseAction(r.Action, r.ActionParameters, inAction); err != nil {
		return nil, c.refusal(actionText, r.Action, err)
	}
	c.names.bodies = c.names.bodies || inAction.bodies
	return c, nil
}

// The names of a rule's two texts in errors.
const (
	filterText = "filter"
	actionText = "action"
)

func (r *Rule) compileFilter(f core.Filter) (predicate, error) {
	switch f.Kind {
	case core.TrueFilter:
		return settled(True), nil
	case core.FalseFilter:
		return settled(False), nil
	case core.CorrelationFilter:
		if c := newCorrelation(f.Correlation, &r.names); c != nil {
			return c, nil
		}
		return nil, core.Refuse(core.InvalidArgument, "Rule '%s': the correlation filter has no condition: set at least one property.", r.name)
	case core.SQLFilter:
		return r.compileSQL(f)
	default:
		return nil, core.Refuse(core.InvalidArgument, "Rule '%s': the kind of the filter is unknown: %s.", r.name, f.Kind)
	}
}

func (r *Rule) compileSQL(f core.Filter) (predicate, error) {
	if err := r.checkText(filterText, f.SQL); err != nil {
		return nil, err
	}
	p := newParser(f.SQL, f.Parameters, &r.names)
	c, err := p.filter()
	if err != nil {
		return nil, r.refusal(filterText, f.SQL, err)
	}
	r.calls = p.calls
	return c, nil
}

func (r *Rule) checkText(which, sql string) error {
	switch n := utf8.RuneCountInString(sql); {
	case n > core.MaxSQLLength:
		return core.Refuse(core.InvalidArgument, "Rule '%s': the SQL %s has %d characters; at most %d are allowed.", r.name, which, n, core.MaxSQLLength)
	case !utf8.ValidString(sql):
		return core.Refuse(core.InvalidArgument, "Rule '%s': the SQL %s is not valid UTF-8.", r.name, which)
	}
	return nil
}

// refusal returns the error about a text of the rule. Positions count characters from 1.
func (r *Rule) refusal(which, sql string, err error) error {
	f, ok := errors.AsType[*fault](err)
	if !ok {
		return core.Refuse(core.InvalidArgument, "Rule '%s': SQL %s: %v", r.name, which, err)
	}
	return core.Refuse(core.InvalidArgument, "Rule '%s': SQL %s, position %d: %s", r.name, which, utf8.RuneCountInString(sql[:f.at])+1, f.text)
}

// Name returns the rule's name.
func (r *Rule) Name() string { return r.name }

// Calls returns the calls of plugins in the filter.
func (r *Rule) Calls() []Call { return r.calls }

// HasAction reports whether the rule has an action, and therefore makes a copy of its own.
func (r *Rule) HasAction() bool { return r.action != nil }

// Matches evaluates the filter. Only True is a match. An error is a core.InvalidArgument with a
// text that describes what went wrong.
func (r *Rule) Matches(m *core.Message, f Facts) (Truth, error) {
	s := open(m, f, &r.names)
	defer s.close()
	t := r.predicate.truth(s)
	if s.fault != nil {
		return Unknown, r.refusal(filterText, r.sql, s.fault)
	}
	return t, nil
}

// Apply returns the result of the rule's action for a message that matches: a copy that shares the
// body, has the user property RuleName, and then everything that the action sets. Without an action
// it returns the message itself.
func (r *Rule) Apply(m *core.Message, f Facts) (*core.Message, error) {
	work := 0
	return r.apply(m, f, &work)
}

func (r *Rule) apply(m *core.Message, f Facts, work *int) (*core.Message, error) {
	if r.action == nil {
		return m, nil
	}
	changed, err := runAction(r.name, r.action, m, f, work)
	if err != nil {
		return nil, r.refusal(actionText, r.actionSQL, err)
	}
	return changed, nil
}
