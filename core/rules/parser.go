package rules

import (
	"github.com/crosstown-mq/crosstown/core"
)

// maxDepth bounds how deep parentheses, NOT, signs and functions may nest.
const maxDepth = 64

// parser turns the text of a filter or an action into expressions.
type parser struct {
	lexer      lexer
	token      token // the next one
	names      *names
	parameters core.Properties
	depth      int
	calls      []Call // of plugins
	notes      *notes // nil unless the text is to be explained
}

func newParser(sql string, parameters core.Properties, n *names) (*parser, error) {
	p := &parser{lexer: lexer{sql: sql}, names: n, parameters: parameters}
	return p, p.advance()
}

func (p *parser) advance() (err error) {
	p.token, err = p.lexer.next()
	return err
}

// take passes over the next token if it is the given keyword or operator.
func (p *parser) take(word string) (bool, error) {
	if !p.token.is(word) {
		return false, nil
	}
	return true, p.advance()
}

// need passes over the next token, which must be the given keyword or operator.
func (p *parser) need(word string) error {
	if !p.token.is(word) {
		return p.expected(word)
	}
	return p.advance()
}

func (p *parser) expected(what string) error {
	return faultAt(p.token.at, "expected %s but found %s", what, p.token)
}

// nested runs parse one level deeper.
func (p *parser) nested(parse func() (operand, error)) (operand, error) {
	if p.depth++; p.depth > maxDepth {
		return operand{}, faultAt(p.token.at, "the expression is nested deeper than %d", maxDepth)
	}
	defer func() { p.depth-- }()
	return parse()
}

// filter parses a whole text as a condition.
func (p *parser) filter() (predicate, error) {
	o, err := p.disjunction()
	if err != nil {
		return nil, err
	}
	if p.token.kind != tokenEnd {
		return nil, p.expected(o.continuation())
	}
	return p.condition(o)
}

// condition returns an operand that ends before the next token as a condition.
func (p *parser) condition(o operand) (predicate, error) {
	c, err := o.predicate()
	if err != nil || p.notes == nil {
		return c, err
	}
	return p.notes.condition(c, o.at, p.token.at), nil
}

func (p *parser) disjunction() (operand, error) {
	return p.chain("OR", p.conjunction, func(ps []predicate) predicate { return disjunction(ps) })
}

func (p *parser) conjunction() (operand, error) {
	return p.chain("AND", p.negation, func(ps []predicate) predicate { return conjunction(ps) })
}

// chain parses conditions that a keyword joins. A single part is left as it is.
func (p *parser) chain(word string, part func() (operand, error), join func([]predicate) predicate) (operand, error) {
	first, err := part()
	if err != nil || !p.token.is(word) {
		return first, err
	}
	var parts []predicate
	for next := first; ; {
		c, err := p.condition(next)
		if err != nil {
			return operand{}, err
		}
		parts = append(parts, c)
		more, err := p.take(word)
		if err != nil {
			return operand{}, err
		}
		if !more {
			return conditionAt(first.at, join(parts), parts...), nil
		}
		if next, err = part(); err != nil {
			return operand{}, err
		}
	}
}

// conditionAt makes an operand of a condition, which is settled now if its parts are.
func conditionAt(at int, c predicate, parts ...predicate) operand {
	for _, p := range parts {
		if _, ok := p.(settled); !ok {
			return operand{at: at, condition: c}
		}
	}
	return operand{at: at, condition: settled(c.truth(&scope{}))}
}

func (p *parser) negation() (operand, error) {
	at := p.token.at
	if not, err := p.take("NOT"); err != nil || !not {
		if err != nil {
			return operand{}, err
		}
		return p.comparison()
	}
	o, err := p.nested(p.negation)
	if err != nil {
		return operand{}, err
	}
	c, err := p.condition(o)
	if err != nil {
		return operand{}, err
	}
	return conditionAt(at, negation{c}, c), nil
}
