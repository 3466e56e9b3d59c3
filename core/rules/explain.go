package rules

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

type Explanation struct {
	Truth Truth
	// Why has the conditions that decided, as the filter has them, each with its answer and the
	// values that it compared: "price > 10 is unknown: price is not set".
	Why []string
	// Err is why the rule, its filter or (if Truth is True) its action failed.
	Err error
	// Message is the result of the rule's action; nil without a match or after an error.
	Message *core.Message
}

// Explain evaluates a rule for one message, like Rule.Matches, and explains the result.
func Explain(r core.Rule, m *core.Message, f Facts) Explanation {
	c, err := Compile(r)
	if err != nil {
		return Explanation{Err: err}
	}
	var e Explanation
	switch r.Filter.Kind {
	case core.TrueFilter:
		e = Explanation{Truth: True, Why: []string{"the filter matches every message"}}
	case core.FalseFilter:
		e = Explanation{Truth: False, Why: []string{"the filter matches no message"}}
	case core.CorrelationFilter:
		e = c.explainCorrelation(r.Filter.Correlation, m, f)
	default:
		e = c.explainSQL(r.Filter, m, f)
	}
	if e.Truth == True && e.Err == nil {
		e.Message, e.Err = c.Apply(m, f)
	}
	return e
}

func (r *Rule) explainSQL(filter core.Filter, m *core.Message, f Facts) Explanation {
	n, own := &notes{sql: filter.SQL}, &names{}
	p := newParser(filter.SQL, filter.Parameters, own)
	p.notes = n
	c, _ := p.filter() // never fails: the rule was compiled
	s := open(m, f, own)
	defer s.close()
	t := c.truth(s)
	if s.fault != nil {
		e := Explanation{Err: r.refusal(filterText, filter.SQL, s.fault)}
		if bad := failing(c); bad != nil {
			e.Why = []string{n.explain(bad, "cannot be evaluated", s)}
		}
		return e
	}
	e := Explanation{Truth: t}
	for _, d := range deciding(nil, c, s, false) {
		e.Why = append(e.Why, n.explain(d, "is "+strings.ToLower(d.answer.String()), s))
	}
	return e
}

func (n *notes) explain(c *note, verdict string, s *scope) string {
	b := strings.Builder{}
	b.WriteString(n.text(c.from, c.to) + " " + verdict)
	for i, m := range n.in(c) {
		b.WriteString([]string{": ", ", "}[min(i, 1)])
		b.WriteString(n.text(m.from, m.to) + " is " + s.describe(m.value))
	}
	return b.String()
}

func (r *Rule) explainCorrelation(filter *core.Correlation, m *core.Message, f Facts) Explanation {
	s := open(m, f, &r.names)
	defer s.close()
	e := Explanation{Truth: r.predicate.truth(s)}
	add := func(name, wanted, seen string, equal bool) {
		switch {
		case !equal:
			e.Why = append(e.Why, name+" = "+wanted+" is false: "+name+" is "+seen)
		case e.Truth == True:
			e.Why = append(e.Why, name+" = "+wanted+" is true")
		}
	}
	c := r.predicate.(*correlation)
	for _, t := range c.fields {
		seen := t.system.text(m)
		shown := "not set"
		if seen != "" {
			shown = quoted(seen)
		}
		add(t.system.name, quoted(t.text), shown, seen == t.text)
	}
	next := 0
	for key, raw := range value.MapEntries(filter.Properties.Encoded()) {
		t := c.properties[next]
		next++
		add(string(key), decode(raw).describe(typeOf(raw)), s.describeUser(fold(string(key))), same(s.at(t.slot), t.value))
	}
	return e
}

func (s *scope) describe(e expression) string {
	switch e := e.(type) {
	case *userProperty:
		return s.describeUser(e.folded)
	case *namedProperty:
		if name := e.name.eval(s); name.kind == text {
			if isSystem, bare := cutScope(name.text); !isSystem {
				return s.describeUser(fold(bare))
			}
		}
	}
	d := e.eval(s)
	switch e.(type) {
	case systemProperty, *namedProperty:
		if d.kind == null {
			return "not set"
		}
	}
	return d.describe(d.family())
}

func (s *scope) describeUser(folded string) string {
	if raw := s.raw(folded); raw != nil {
		return decode(raw).describe(typeOf(raw))
	}
	return "not set"
}

func (d datum) describe(typeName string) string {
	switch d.kind {
	case absent:
		return "not set"
	case null:
		return "null"
	case opaque:
		return "of type " + typeName
	case text:
		return quoted(d.text) + " (" + typeName + ")"
	case boolean:
		return strings.ToLower(truthOfFlag(d).String()) + " (" + typeName + ")"
	case binary:
		return fmt.Sprintf("0x%s (%s)", clipped(hex.EncodeToString([]byte(d.text))), typeName)
	}
	s, _ := d.render()
	return s + " (" + typeName + ")"
}

// family names d's type. For a user property, typeOf is better: it names the sender's type.
func (d datum) family() string {
	return [...]string{
		absent: "", null: "", boolean: "boolean", integer: "long", huge: "ulong", real: "double", text: "string",
		instant: "timestamp", span: "TimeSpan", guid: "uuid", binary: "binary", opaque: "list, map or unknown",
	}[d.kind]
}

// typeOf returns the name of a value's type; for a described value, that of the type in .NET.
func typeOf(raw []byte) string {
	if k := value.KindOf(raw); k != value.KindDescribed {
		return k.String()
	}
	switch decode(raw).kind {
	case span:
		return "TimeSpan"
	case instant:
		return "DateTimeOffset"
	case text:
		return "URI"
	}
	return value.KindDescribed.String()
}

func quoted(s string) string {
	return "'" + strings.ReplaceAll(clipped(s), "'", "''") + "'"
}

const maxShown = 100

func clipped(s string) string {
	if utf8.RuneCountInString(s) <= maxShown {
		return s
	}
	return string([]rune(s)[:maxShown]) + "…"
}

// notes are what a parser records when an SQL text will be explained: the conditions without AND,
// OR and NOT, and the properties and parameters in them, each with its place in the text.
type notes struct {
	sql      string
	mentions []mention
}

type mention struct {
	from, to int
	value    expression
}

func (n *notes) mention(value expression, from, to int) {
	if value != (newID{}) {
		n.mentions = append(n.mentions, mention{from, to, value})
	}
}

func (n *notes) condition(c predicate, from, to int) predicate {
	if isNoted(c) {
		return c
	}
	return &note{predicate: c, from: from, to: to}
}

func isNoted(c predicate) bool {
	switch c := c.(type) {
	case *note, junction:
		return true
	case negation:
		return isNoted(c.of)
	}
	return false
}

func (n *notes) in(c *note) []mention {
	var found []mention
	for _, m := range n.mentions {
		known := slices.ContainsFunc(found, func(f mention) bool { return n.text(f.from, f.to) == n.text(m.from, m.to) })
		if m.from >= c.from && m.from < c.to && !known {
			found = append(found, m)
		}
	}
	return found
}

func (n *notes) text(from, to int) string { return strings.TrimSpace(n.sql[from:to]) }

type note struct {
	predicate
	from, to int
	answered bool
	answer   Truth
	fault    *fault
}

func (n *note) truth(s *scope) Truth {
	before := s.fault
	if !n.answered {
		s.fault = nil
		n.answer = n.predicate.truth(s)
		n.answered, n.fault = true, s.fault
	}
	s.fault = n.fault
	if before != nil {
		s.fault = before
	}
	return n.answer
}

// deciding appends the notes that decided the answer of c, which was evaluated without an error.
// While these keep their answers, the other notes cannot change c if it is True or False, nor make
// it a match if it is Unknown. Parts that the evaluation did not reach count, too, unless they
// fail. negated means that the filter matches if c is False.
func deciding(dst []*note, c predicate, s *scope, negated bool) []*note {
	switch c := c.(type) {
	case *note:
		return append(dst, c)
	case negation:
		return deciding(dst, c.of, s, !negated)
	case junction:
		// Parts with the answer of the whole decide. All decide if it is Unknown, and one part
		// alone could make it a match.
		whole, oneCanMatch := c.truth(s), negated == (c.ends == False)
		for _, p := range c.parts {
			t := p.truth(s)
			switch {
			case s.fault != nil:
				s.fault = nil
			case t == whole || whole == Unknown && oneCanMatch:
				dst = deciding(dst, p, s, negated)
			}
		}
	}
	return dst
}

func failing(c predicate) *note {
	switch c := c.(type) {
	case *note:
		if c.fault != nil {
			return c
		}
	case negation:
		return failing(c.of)
	case junction:
		for _, p := range c.parts {
			if n := failing(p); n != nil {
				return n
			}
		}
	}
	return nil
}
