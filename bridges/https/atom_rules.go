package https

import (
	"net/http"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

func (m *management) listRules() error {
	return m.page("Rules", func(skip, n int) (int, func([]byte, int) []byte, error) {
		all, err := m.front.Rules(m.r.Context(), m.id, m.target.node(), skip, n)
		return len(all), func(dst []byte, i int) []byte { return appendRuleEntry(dst, m.at, m.target, all[i]) }, err
	})
}

func (m *management) getRule() error {
	rule, err := m.front.Rule(m.r.Context(), m.id, m.target.node(), m.target.rule)
	if err != nil {
		return m.denied(read, err)
	}
	writeAtom(m.w, http.StatusOK, entryType, appendRuleEntry(nil, m.at, m.target, rule))
	return nil
}

func (m *management) putRule() error {
	description, err := readDescription(m.w, m.r)
	if err != nil {
		return err
	}
	if name := description.name.Local; name != ruleDescription {
		return core.Refuse(core.InvalidArgument, "The content of the entry is <%s>: for a rule it must be <%s>.", name, ruleDescription)
	}
	rule, err := readRule(description)
	if err != nil {
		return err
	}
	if named := m.target.rule; named != "" {
		if rule.Name != "" && core.FoldName(rule.Name) != core.FoldName(named) {
			return core.Refuse(core.InvalidArgument, "The rule's name is '%s' in the path and '%s' in <Name>: use the same name in both.", named, rule.Name)
		}
		rule.Name = named
	}
	do, status := m.front.CreateRule, http.StatusCreated
	if m.r.Header.Get("If-Match") != "" {
		do, status = m.front.UpdateRule, http.StatusOK
	}
	if rule, err = do(m.r.Context(), m.id, m.target.node(), rule); err != nil {
		return m.denied(write, err)
	}
	writeAtom(m.w, status, entryType, appendRuleEntry(nil, m.at, m.target, rule))
	return nil
}

const ruleDescription = "RuleDescription"

// compatibilityLevel is the version of the SQL dialect that all SDKs send.
const compatibilityLevel = 20

// readRule decodes a RuleDescription or a DefaultRuleDescription. A rule without a filter matches
// every message. The broker checks the SQL later.
func readRule(description *node) (r core.Rule, err error) {
	r.Filter.Kind = core.TrueFilter
	for _, n := range description.children {
		switch n.name.Local {
		case "Name":
			r.Name = n.value()
		case "Filter":
			if r.Filter, err = readFilter(n); err != nil {
				return r, err
			}
		case "Action":
			if r.Action, r.ActionParameters, err = readAction(n); err != nil {
				return r, err
			}
		case "CreatedAt":
		default:
			return r, core.Refuse(core.InvalidArgument, "<%.60s> is not an element of a rule: use Name, Filter and Action.", n.name.Local)
		}
	}
	return r, nil
}

func readFilter(n *node) (f core.Filter, err error) {
	typ := n.typ
	if typ == "" && n.child("SqlExpression") != nil {
		typ = "SqlFilter"
	}
	switch typ {
	case "TrueFilter":
		f.Kind = core.TrueFilter
	case "FalseFilter":
		f.Kind = core.FalseFilter
	case "SqlFilter":
		f.Kind = core.SQLFilter
		if f.SQL, err = readExpression(n); err != nil {
			return f, err
		}
		f.Parameters, err = readPairs(n.child("Parameters"))
	case "CorrelationFilter":
		f.Kind = core.CorrelationFilter
		f.Correlation, err = readCorrelation(n)
	default:
		return f, core.Refuse(core.InvalidArgument, "The type '%.60s' of <Filter> is unknown: i:type must be SqlFilter, CorrelationFilter, TrueFilter or FalseFilter.", typ)
	}
	return f, err
}

func readCorrelation(n *node) (*core.Correlation, error) {
	c := new(core.Correlation)
	for name, field := range c.Conditions() {
		if v := n.child(name); v != nil && !v.null {
			*field = &v.text
		}
	}
	var err error
	c.Properties, err = readPairs(n.child("Properties"))
	return c, err
}

func readAction(n *node) (sql string, parameters core.Properties, err error) {
	switch {
	case n.null, n.typ == "EmptyRuleAction", n.typ == "" && len(n.children) == 0:
		return "", core.Properties{}, nil
	case n.typ == "SqlRuleAction", n.typ == "" && n.child("SqlExpression") != nil:
		if sql, err = readExpression(n); err != nil {
			return "", core.Properties{}, err
		}
		parameters, err = readPairs(n.child("Parameters"))
		return sql, parameters, err
	}
	return "", core.Properties{}, core.Refuse(core.InvalidArgument, "The type '%.60s' of <Action> is unknown: i:type must be SqlRuleAction or EmptyRuleAction.", n.typ)
}

func readExpression(n *node) (string, error) {
	e := n.child("SqlExpression")
	if e == nil || strings.TrimSpace(e.text) == "" {
		return "", core.Refuse(core.InvalidArgument, "The <%s> must contain a <SqlExpression> that is not empty.", n.name.Local)
	}
	return e.text, nil
}

func appendRuleEntry(dst []byte, at reference, t target, r core.Rule) []byte {
	link := at.self()
	if t.feed {
		link = at.below(r.Name)
	}
	dst = entry{link, r.Name, t.subscription, r.CreatedAt, r.CreatedAt}.open(dst)
	dst = openDescription(dst, ruleDescription)
	dst = appendFilter(dst, &r.Filter)
	dst = appendAction(dst, &r)
	dst = appendTime(dst, "CreatedAt", r.CreatedAt)
	dst = appendElement(dst, "Name", r.Name)
	return closeDescription(dst, ruleDescription)
}

// appendFilter appends a filter. Even true and false filters get an SQL expression, because the
// JavaScript SDK expects one.
func appendFilter(dst []byte, f *core.Filter) []byte {
	switch f.Kind {
	case core.TrueFilter:
		dst = appendSQL(append(dst, `<Filter i:type="TrueFilter">`...), "1=1")
	case core.FalseFilter:
		dst = appendSQL(append(dst, `<Filter i:type="FalseFilter">`...), "1=0")
	case core.SQLFilter:
		dst = appendSQL(append(dst, `<Filter i:type="SqlFilter">`...), f.SQL)
		dst = appendPairs(dst, "Parameters", f.Parameters)
	case core.CorrelationFilter:
		dst = append(dst, `<Filter i:type="CorrelationFilter">`...)
		for name, field := range f.Correlation.Conditions() {
			if *field != nil {
				dst = appendElement(dst, name, **field)
			}
		}
		dst = appendPairs(dst, "Properties", f.Correlation.Properties)
	}
	return append(dst, `</Filter>`...)
}

// appendAction appends the element of the action, which clients require even if it is empty.
func appendAction(dst []byte, r *core.Rule) []byte {
	if r.Action == "" {
		return append(dst, `<Action i:type="EmptyRuleAction"/>`...)
	}
	dst = appendSQL(append(dst, `<Action i:type="SqlRuleAction">`...), r.Action)
	dst = appendPairs(dst, "Parameters", r.ActionParameters)
	return append(dst, `</Action>`...)
}

func appendSQL(dst []byte, text string) []byte {
	dst = appendElement(dst, "SqlExpression", text)
	return appendNumber(dst, "CompatibilityLevel", compatibilityLevel)
}
