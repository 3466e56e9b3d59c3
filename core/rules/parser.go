package rules

import (
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

// maxDepth limits how deep parentheses, NOT, signs and functions can be nested.
const maxDepth = 64

// parser turns the text of a filter or an action into expressions. After the first error it sees
// the end of the text, and its results must not be used.
type parser struct {
	lexer      lexer
	token      token
	err        error
	names      *names
	parameters core.Properties
	depth      int
	calls      []Call
	fallible   bool   // the evaluation can fail, for example because a sum overflows or a divisor is zero
	notes      *notes // nil unless the text will be explained
}

func newParser(sql string, parameters core.Properties, n *names) *parser {
	p := &parser{lexer: lexer{sql: sql}, names: n, parameters: parameters}
	p.advance()
	return p
}

func (p *parser) fail(err error) {
	if p.err == nil && err != nil {
		p.err = err
		p.token = token{at: p.token.at}
		p.lexer.at = len(p.lexer.sql)
	}
}

func (p *parser) advance() {
	t, err := p.lexer.next()
	p.token = t
	p.fail(err)
}

func (p *parser) take(word string) bool {
	if !p.token.is(word) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) need(word string) {
	if !p.take(word) {
		p.expected(word)
	}
}

// expected records an error, and returns an empty operand for its callers to return.
func (p *parser) expected(what string) operand {
	p.fail(faultAt(p.token.at, "expected %s but found %s", what, p.token))
	return operand{}
}

func (p *parser) nested(parse func() operand) operand {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxDepth {
		p.fail(faultAt(p.token.at, "the expression is nested deeper than %d", maxDepth))
		return operand{}
	}
	return parse()
}

func (p *parser) filter() (predicate, error) {
	o := p.disjunction()
	switch {
	case p.token.kind == tokenEnd:
	case o.condition != nil:
		p.expected("AND, OR or the end of the expression")
	default:
		p.expected("a comparison")
	}
	return p.condition(o), p.err
}

func (p *parser) condition(o operand) predicate {
	c, err := o.predicate()
	if p.fail(err); p.err != nil {
		return settled(Unknown)
	}
	if p.notes == nil {
		return c
	}
	return p.notes.condition(c, o.at, p.token.at)
}

func (p *parser) disjunction() operand {
	return p.chain("OR", p.conjunction, True)
}

func (p *parser) conjunction() operand {
	return p.chain("AND", p.negation, False)
}

func (p *parser) chain(word string, part func() operand, ends Truth) operand {
	first := part()
	if !p.token.is(word) {
		return first
	}
	parts := []predicate{p.condition(first)}
	for p.take(word) {
		parts = append(parts, p.condition(part()))
	}
	return conditionAt(first.at, junction{ends, parts}, parts...)
}

// If none of the parts depends on the message, conditionAt evaluates c at once.
func conditionAt[T any](at int, c predicate, parts ...T) operand {
	if areConstant(parts) {
		c = settled(c.truth(&scope{}))
	}
	return operand{at: at, condition: c}
}

func areConstant[T any](parts []T) bool {
	return !slices.ContainsFunc(parts, func(part T) bool {
		switch any(part).(type) {
		case constant, settled:
			return false
		}
		return true
	})
}

func (p *parser) negation() operand {
	at := p.token.at
	if !p.take("NOT") {
		return p.comparison()
	}
	c := p.condition(p.nested(p.negation))
	return conditionAt(at, negation{c}, c)
}

var relations = map[string]relation{
	"=": equal, "<>": unequal, "!=": unequal,
	"<": less, "<=": lessOrEqual, ">": greater, ">=": greaterOrEqual,
}

func (p *parser) comparison() operand {
	left := p.sum()
	if r, ok := relations[p.token.text]; ok && p.token.kind == tokenOperator {
		return p.relation(left, r)
	}
	switch {
	case p.token.is("IS"):
		return p.nullTest(left)
	case p.token.is("NOT"):
		p.advance()
		o := p.matching(left)
		return conditionAt(left.at, negation{o.condition}, o.condition)
	case p.token.is("IN"), p.token.is("LIKE"):
		return p.matching(left)
	}
	return left
}

func (p *parser) relation(left operand, r relation) operand {
	a := p.expression(left)
	p.advance()
	b := p.valueOf(p.sum)
	return conditionAt(left.at, &comparison{r, a, b}, a, b)
}

func (p *parser) valueOf(parse func() operand) expression { return p.expression(parse()) }

func (p *parser) expression(o operand) expression {
	if o.value == nil {
		p.fail(faultAt(o.at, "expected a value but found a condition"))
		return constant{}
	}
	return o.value
}

func (p *parser) nullTest(left operand) operand {
	if !left.isProperty() {
		p.fail(faultAt(left.at, "expected a property before IS"))
		return left
	}
	p.advance()
	not := p.take("NOT")
	p.need("NULL")
	if not {
		return operand{at: left.at, condition: negation{nullTest{left.value}}}
	}
	return operand{at: left.at, condition: nullTest{left.value}}
}

func (o operand) isProperty() bool {
	switch o.value.(type) {
	case *userProperty, *namedProperty, *bodyField, systemProperty:
		return true
	}
	return false
}

func (p *parser) matching(left operand) operand {
	of := p.expression(left)
	switch {
	case p.take("IN"):
		return p.membership(left.at, of)
	case p.take("LIKE"):
		return p.likeness(left.at, of)
	}
	return p.expected("IN or LIKE")
}

func (p *parser) membership(at int, of expression) operand {
	p.need("(")
	m := &membership{of: of, list: []expression{p.valueOf(p.sum)}}
	for p.take(",") {
		m.list = append(m.list, p.valueOf(p.sum))
	}
	if !p.take(")") {
		return p.expected("',' or ')'")
	}
	return conditionAt(at, m, append([]expression{of}, m.list...)...)
}

func (p *parser) likeness(at int, of expression) operand {
	patternAt := p.token.at
	values := []expression{of, p.valueOf(p.sum)}
	escapeAt := p.token.at
	var escape expression
	if p.take("ESCAPE") {
		escapeAt = p.token.at
		escape = p.valueOf(p.sum)
		values = append(values, escape)
	}
	switch c := newLikeness(of, values[1], escape, patternAt, escapeAt).(type) {
	case impossible, *computedLikeness:
		p.fallible = true
		return operand{at: at, condition: c}
	default:
		return conditionAt(at, c, values...)
	}
}

func newLikeness(of, pat, escape expression, patternAt, escapeAt int) predicate {
	char := rune(-1)
	switch e := escape.(type) {
	case nil:
	case constant:
		if e.isUnknown() {
			return settled(Unknown)
		}
		var err error
		if char, err = escapeOf(e.datum); err != nil {
			return impossible{escapeAt, err}
		}
	default:
		return &computedLikeness{of, pat, escape, patternAt}
	}
	c, ok := pat.(constant)
	if !ok {
		return &computedLikeness{of, pat, escape, patternAt}
	}
	if c.isUnknown() {
		return settled(Unknown)
	}
	if c.kind != text {
		return impossible{patternAt, errPattern}
	}
	compiled, err := compilePattern(c.text, char)
	if err != nil {
		return impossible{patternAt, err}
	}
	return &likeness{of, compiled}
}
