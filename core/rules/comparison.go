package rules

var relations = map[string]relation{
	"=": equal, "<>": unequal, "!=": unequal,
	"<": less, "<=": lessOrEqual, ">": greater, ">=": greaterOrEqual,
}

// comparison parses a value and what it is compared with, if anything.
func (p *parser) comparison() (operand, error) {
	left, err := p.sum()
	if err != nil {
		return operand{}, err
	}
	if r, ok := relations[p.token.text]; ok && p.token.kind == tokenOperator {
		return p.relation(left, r)
	}
	switch {
	case p.token.is("IS"):
		return p.nullTest(left)
	case p.token.is("NOT"):
		if err := p.advance(); err != nil {
			return operand{}, err
		}
		o, err := p.matching(left)
		if err != nil {
			return operand{}, err
		}
		return conditionAt(left.at, negation{o.condition}, o.condition), nil
	case p.token.is("IN"), p.token.is("LIKE"):
		return p.matching(left)
	}
	return left, nil
}

func (p *parser) relation(left operand, r relation) (operand, error) {
	a, err := left.expression()
	if err != nil {
		return operand{}, err
	}
	if err := p.advance(); err != nil {
		return operand{}, err
	}
	b, err := p.valueOf(p.sum)
	if err != nil {
		return operand{}, err
	}
	return decided(left.at, &comparison{r, a, b}, a, b), nil
}

// decided makes an operand of a condition, which is settled now if its values are constants
// and it cannot go wrong.
func decided(at int, c predicate, values ...expression) operand {
	if c.fallible() {
		return operand{at: at, condition: c}
	}
	for _, v := range values {
		if _, ok := v.(constant); !ok {
			return operand{at: at, condition: c}
		}
	}
	return operand{at: at, condition: settled(c.truth(&scope{}))}
}

func (p *parser) valueOf(parse func() (operand, error)) (expression, error) {
	o, err := parse()
	if err != nil {
		return nil, err
	}
	return o.expression()
}

func (p *parser) nullTest(left operand) (operand, error) {
	if !left.isProperty() {
		return operand{}, faultAt(left.at, "expected a property before IS")
	}
	if err := p.advance(); err != nil {
		return operand{}, err
	}
	not, err := p.take("NOT")
	if err != nil {
		return operand{}, err
	}
	if err := p.need("NULL"); err != nil {
		return operand{}, err
	}
	if not {
		return operand{at: left.at, condition: negation{nullTest{left.value}}}, nil
	}
	return operand{at: left.at, condition: nullTest{left.value}}, nil
}

func (o operand) isProperty() bool {
	switch o.value.(type) {
	case *userProperty, *namedProperty, *bodyField, systemProperty:
		return true
	}
	return false
}

// matching parses IN or LIKE behind left.
func (p *parser) matching(left operand) (operand, error) {
	of, err := left.expression()
	if err != nil {
		return operand{}, err
	}
	in, err := p.take("IN")
	if err != nil {
		return operand{}, err
	}
	if in {
		return p.membership(left.at, of)
	}
	if !p.token.is("LIKE") {
		return operand{}, p.expected("IN or LIKE")
	}
	return p.likeness(left.at, of)
}

func (p *parser) membership(at int, of expression) (operand, error) {
	if err := p.need("("); err != nil {
		return operand{}, err
	}
	m := &membership{of: of}
	for {
		e, err := p.valueOf(p.sum)
		if err != nil {
			return operand{}, err
		}
		m.list = append(m.list, e)
		if more, err := p.take(","); err != nil {
			return operand{}, err
		} else if !more {
			break
		}
	}
	if !p.token.is(")") {
		return operand{}, p.expected("',' or ')'")
	}
	return decided(at, m, append([]expression{of}, m.list...)...), p.advance()
}

func (p *parser) likeness(at int, of expression) (operand, error) {
	if err := p.advance(); err != nil {
		return operand{}, err
	}
	patternAt := p.token.at
	pat, err := p.valueOf(p.sum)
	if err != nil {
		return operand{}, err
	}
	escapeAt := p.token.at
	hasEscape, err := p.take("ESCAPE")
	if err != nil {
		return operand{}, err
	}
	var escape expression
	if hasEscape {
		escapeAt = p.token.at
		if escape, err = p.valueOf(p.sum); err != nil {
			return operand{}, err
		}
	}
	c := newLikeness(of, pat, escape, patternAt, escapeAt)
	if escape == nil {
		return decided(at, c, of, pat), nil
	}
	return decided(at, c, of, pat, escape), nil
}

// newLikeness compiles the pattern now if pattern and escape are constants.
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
