package rules

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
)

// PropertyRuleName is the user property with the name of the rule whose action made the copy.
const PropertyRuleName = "RuleName"

// Rule is a compiled rule. It is immutable and safe for concurrent use.
type Rule struct {
	name      string
	sql       string
	actionSQL string
	predicate predicate
	fallible  bool        // the filter can fail, so it is evaluated even if its answer is not needed
	action    []statement // nil without an action
	names     names
	calls     []Call
}

// If Compile does not understand the rule, or the rule would always fail, it returns
// core.InvalidArgument with a text that has rule, position and reason.
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
	default:
		return nil, core.Refuse(core.InvalidArgument, "Rule '%s': the filter's kind '%s' is unknown.", r.name, f.Kind)
	}
	if err := r.checkText(filterText, f.SQL); err != nil {
		return nil, err
	}
	p := newParser(f.SQL, f.Parameters, &r.names)
	c, err := p.filter()
	if err != nil {
		return nil, r.refusal(filterText, f.SQL, err)
	}
	r.calls, r.fallible = p.calls, p.fallible
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

// Positions are characters, counted from 1.
func (r *Rule) refusal(which, sql string, err error) error {
	f, ok := errors.AsType[*fault](err)
	if !ok {
		return core.Refuse(core.InvalidArgument, "Rule '%s': SQL %s: %v", r.name, which, err)
	}
	return core.Refuse(core.InvalidArgument, "Rule '%s': SQL %s, position %d: %s", r.name, which, utf8.RuneCountInString(sql[:f.at])+1, f.text)
}

func (r *Rule) Name() string { return r.name }

func (r *Rule) Calls() []Call { return r.calls }

func (r *Rule) HasAction() bool { return r.action != nil }

// Only True is a match. An error is core.InvalidArgument with a text that says what failed.
func (r *Rule) Matches(m *core.Message, f Facts) (Truth, error) {
	s := open(m, f, &r.names)
	defer s.close()
	t := r.predicate.truth(s)
	if s.fault != nil {
		return Unknown, r.refusal(filterText, r.sql, s.fault)
	}
	return t, nil
}

// Apply returns what the rule makes of a message that matches. With an action, this is a copy that
// shares the body and has PropertyRuleName and what the action has set. Without an action, it is m.
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
