package rules

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
