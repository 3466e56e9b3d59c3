package rules

import (
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core/value"
)

func (p *parser) sum() (operand, error) { return p.operations(p.product, "+", "-") }

func (p *parser) product() (operand, error) { return p.operations(p.sign, "*", "/", "%") }

// operations parses values joined by operators of one precedence, from the left.
func (p *parser) operations(part func() (operand, error), operators ...string) (operand, error) {
	left, err := part()
	for err == nil {
		if !p.takesOperator(operators) {
			return left, nil
		}
		left, err = p.operation(left, part)
	}
	return operand{}, err
}

func (p *parser) takesOperator(operators []string) bool {
	return slices.ContainsFunc(operators, p.token.is)
}

func (p *parser) operation(left operand, part func() (operand, error)) (operand, error) {
	a, err := left.expression()
	if err != nil {
		return operand{}, err
	}
	operator := p.token
	if err := p.advance(); err != nil {
		return operand{}, err
	}
	b, err := p.valueOf(part)
	if err != nil {
		return operand{}, err
	}
	return computed(left.at, &calculation{operator.text[0], a, b, operator.at}, a, b)
}

// computed makes an operand of a calculation, a constant if its values are.
func computed(at int, c *calculation, values ...expression) (operand, error) {
	for _, v := range values {
		if _, ok := v.(constant); !ok {
			return operand{at: at, value: c}, nil
		}
	}
	d, err := c.compute(&scope{})
	if err != nil { // it goes wrong with each message
		return operand{at: at, value: c}, nil
	}
	return operand{at: at, value: constant{d}}, nil
}

// sign parses + and - in front of a value.
func (p *parser) sign() (operand, error) {
	at, minus := p.token.at, p.token.is("-")
	if !minus && !p.token.is("+") {
		return p.primary()
	}
	if err := p.advance(); err != nil {
		return operand{}, err
	}
	if minus && p.token.kind == tokenInteger && p.token.number == 1<<63 { // the one whose positive is no int64
		return operand{at: at, value: constant{integerOf(-1 << 63)}}, p.advance()
	}
	o, err := p.nested(p.sign)
	if err != nil {
		return operand{}, err
	}
	v, err := o.expression()
	if err != nil {
		return operand{}, err
	}
	if minus {
		return computed(at, &calculation{right: v, at: at}, v)
	}
	if c, ok := v.(constant); ok {
		return operand{at: at, value: constant{positive{c}.eval(nil)}}, nil
	}
	return operand{at: at, value: positive{v}}, nil
}

// primary parses a constant, parameter, property, function, EXISTS or what stands in parentheses.
func (p *parser) primary() (operand, error) {
	t := p.token
	constantOf := func(d datum) (operand, error) {
		return operand{at: t.at, value: constant{d}}, p.advance()
	}
	switch {
	case t.kind == tokenString:
		return constantOf(textOf(t.text))
	case t.kind == tokenInteger:
		return constantOf(unsignedOf(t.number))
	case t.kind == tokenReal:
		return constantOf(realOf(t.float))
	case t.is("TRUE"), t.is("FALSE"):
		return constantOf(booleanOf(t.is("TRUE")))
	case t.is("NULL"):
		return constantOf(datum{kind: null})
	case t.kind == tokenParameter:
		d, err := p.parameter(t)
		if err != nil {
			return operand{}, err
		}
		return p.mentioned(constantOf(d))
	case t.is("EXISTS"):
		return p.existence()
	case t.is("("):
		return p.parentheses()
	case t.kind == tokenName, t.kind == tokenWord && !t.isKeyword():
		return p.mentioned(p.name())
	}
	return operand{}, p.expected("a value")
}

// mentioned passes on an operand that ends before the next token, and notes a property or parameter.
func (p *parser) mentioned(o operand, err error) (operand, error) {
	if p.notes != nil && err == nil && o.value != nil {
		p.notes.mention(o.value, o.at, p.token.at)
	}
	return o, err
}

func (p *parser) parentheses() (operand, error) {
	at := p.token.at
	if err := p.advance(); err != nil {
		return operand{}, err
	}
	o, err := p.nested(p.disjunction)
	if err != nil {
		return operand{}, err
	}
	o.at = at
	return o, p.need(")")
}

func (p *parser) existence() (operand, error) {
	at := p.token.at
	if err := p.advance(); err != nil {
		return operand{}, err
	}
	if err := p.need("("); err != nil {
		return operand{}, err
	}
	o, err := p.nested(p.primary)
	if err != nil {
		return operand{}, err
	}
	if !o.isProperty() {
		return operand{}, faultAt(o.at, "expected a property in EXISTS")
	}
	return operand{at: at, condition: existence{o.value}}, p.need(")")
}

// parameter returns the value of a parameter, whose name may have been stored
// with or without the @, in any case.
func (p *parser) parameter(t token) (datum, error) {
	for key, raw := range value.MapEntries(p.parameters.Encoded()) {
		if strings.EqualFold(strings.TrimPrefix(string(key), "@"), t.text[1:]) {
			return decode(raw), nil
		}
	}
	return datum{}, faultAt(t.at, "the parameter '%.40s' has no value", t.text)
}

// name parses a property or a function.
func (p *parser) name() (operand, error) {
	t := p.token
	if err := p.advance(); err != nil {
		return operand{}, err
	}
	if t.kind == tokenWord && p.token.is("(") {
		return p.function(t)
	}
	return p.property(t)
}

// property parses what may follow the name of a property: if the name is a
// scope, the name in that scope.
func (p *parser) property(first token) (operand, error) {
	if !p.token.is(".") {
		return operand{at: first.at, value: p.userProperty(first.text)}, nil
	}
	if strings.EqualFold(first.text, "body") {
		return p.bodyField(first.at)
	}
	isSystem := strings.EqualFold(first.text, "sys")
	if !isSystem && !strings.EqualFold(first.text, "user") {
		return operand{}, faultAt(first.at, "expected the scope sys, user or body before '.' but found %s; names with a dot are written in brackets", first)
	}
	if err := p.advance(); err != nil {
		return operand{}, err
	}
	name := p.token
	if name.kind != tokenName && (name.kind != tokenWord || name.isKeyword()) {
		return operand{}, p.expected("the name of a property")
	}
	return operand{at: first.at, value: p.scoped(isSystem, name.text)}, p.advance()
}

func (p *parser) scoped(isSystem bool, name string) expression {
	if !isSystem {
		return p.userProperty(name)
	}
	return systemProperty{systemNamed(name)}
}

func (p *parser) userProperty(name string) *userProperty {
	return &userProperty{name: name, folded: fold(name), slot: p.names.slot(name)}
}

// function parses the arguments of the function that t names.
func (p *parser) function(t token) (operand, error) {
	if t.is("plugin") {
		return p.call(t.at)
	}
	isProperty := t.is("property") || t.is("p")
	if !isProperty && !t.is("newid") {
		return operand{}, faultAt(t.at, "there is no function '%.40s'; newid, property, p and plugin are there", t.text)
	}
	if err := p.advance(); err != nil { // (
		return operand{}, err
	}
	if !isProperty {
		return operand{at: t.at, value: newID{}}, p.need(")")
	}
	argumentAt := p.token.at
	name, err := p.valueOf(func() (operand, error) { return p.nested(p.sum) })
	if err != nil {
		return operand{}, err
	}
	if err := p.need(")"); err != nil {
		return operand{}, err
	}
	v, err := p.named(name, argumentAt)
	return operand{at: t.at, value: v}, err
}

// named is property(name), the property itself if the name is constant.
func (p *parser) named(name expression, at int) (expression, error) {
	c, ok := name.(constant)
	if !ok {
		return &namedProperty{name}, nil
	}
	if c.kind != text {
		return nil, faultAt(at, "expected a text as the name of a property")
	}
	isSystem, bare := cutScope(c.text)
	return p.scoped(isSystem, bare), nil
}
