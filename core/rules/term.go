package rules

import (
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core/value"
)

func (p *parser) sum() operand { return p.operations(p.product, "+", "-") }

func (p *parser) product() operand { return p.operations(p.sign, "*", "/", "%") }

func (p *parser) operations(part func() operand, operators ...string) operand {
	left := part()
	for slices.ContainsFunc(operators, p.token.is) {
		operator := p.token
		a := p.expression(left)
		p.advance()
		b := p.valueOf(part)
		left = p.computed(left.at, &calculation{operator.text[0], a, b, operator.at}, a, b)
	}
	return left
}

// If all values of a calculation are constants, computed evaluates it.
func (p *parser) computed(at int, c *calculation, values ...expression) operand {
	if areConstant(values) {
		if d, err := c.compute(&scope{}); err == nil { // otherwise the calculation will fail for each message
			return operand{at: at, value: constant{d}}
		}
	}
	p.fallible = true
	return operand{at: at, value: c}
}

func (p *parser) sign() operand {
	sign, at, minus := p.token, p.token.at, p.token.is("-")
	if !minus && !p.token.is("+") {
		return p.primary()
	}
	p.advance()
	if minus && p.token.kind == tokenInteger && p.token.number == 1<<63 { // only the negative fits an int64
		p.advance()
		return operand{at: at, value: constant{integerOf(-1 << 63)}}
	}
	v := p.expression(p.nested(p.sign))
	return p.computed(at, &calculation{operator: sign.text[0], right: v, at: at}, v)
}

func (p *parser) primary() operand {
	t := p.token
	constantOf := func(d datum) operand {
		p.advance()
		return operand{at: t.at, value: constant{d}}
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
		return p.mentioned(constantOf(p.parameter(t)))
	case t.is("EXISTS"):
		return p.existence()
	case t.is("("):
		p.advance()
		o := p.nested(p.disjunction)
		o.at = t.at
		p.need(")")
		return o
	case t.isName():
		return p.mentioned(p.name())
	}
	return p.expected("a value")
}

// mentioned records o if it is a property or parameter, and returns it. The next token follows o.
func (p *parser) mentioned(o operand) operand {
	if p.notes != nil && p.err == nil && o.value != nil {
		p.notes.mention(o.value, o.at, p.token.at)
	}
	return o
}

func (p *parser) existence() operand {
	at := p.token.at
	p.advance()
	p.need("(")
	o := p.nested(p.primary)
	if !o.isProperty() {
		p.fail(faultAt(o.at, "expected a property in EXISTS"))
		return o
	}
	p.need(")")
	return operand{at: at, condition: existence{o.value}}
}

// A key of parameters may lack the @ of the token, and may differ from it in case.
func (p *parser) parameter(t token) datum {
	for key, raw := range value.MapEntries(p.parameters.Encoded()) {
		if strings.EqualFold(strings.TrimPrefix(string(key), "@"), t.text[1:]) {
			return decode(raw)
		}
	}
	p.fail(faultAt(t.at, "the parameter '%.40s' has no value", t.text))
	return datum{}
}

func (p *parser) name() operand {
	t := p.token
	p.advance()
	if t.kind == tokenWord && p.token.is("(") {
		return p.function(t)
	}
	return p.property(t)
}

func (p *parser) property(first token) operand {
	if !p.token.is(".") {
		return operand{at: first.at, value: p.userProperty(first.text)}
	}
	if strings.EqualFold(first.text, "body") {
		return p.bodyField(first.at)
	}
	isSystem := strings.EqualFold(first.text, "sys")
	if !isSystem && !strings.EqualFold(first.text, "user") {
		p.fail(faultAt(first.at, "expected the scope sys, user or body before '.' but found %s; write a name that contains a dot in brackets", first))
		return operand{}
	}
	p.advance()
	name := p.token
	if !name.isName() {
		return p.expected("the name of a property")
	}
	p.advance()
	return operand{at: first.at, value: p.scoped(isSystem, name.text)}
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

func (p *parser) function(t token) operand {
	if t.is("plugin") {
		return p.call(t.at)
	}
	isProperty := t.is("property") || t.is("p")
	if !isProperty && !t.is("newid") {
		p.fail(faultAt(t.at, "the function '%.40s' does not exist: use newid, property, p or plugin", t.text))
		return operand{}
	}
	p.need("(")
	o := operand{at: t.at, value: newID{}}
	if isProperty {
		argumentAt := p.token.at
		name := p.expression(p.nested(p.sum))
		p.need(")")
		o.value = p.named(name, argumentAt)
	} else {
		p.need(")")
	}
	return o
}

func (p *parser) named(name expression, at int) expression {
	c, ok := name.(constant)
	if !ok {
		return &namedProperty{name}
	}
	if c.kind != text {
		p.fail(faultAt(at, "expected a string with the name of a property"))
	}
	isSystem, bare := cutScope(c.text)
	return p.scoped(isSystem, bare)
}
