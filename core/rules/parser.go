package rules

import (
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// maxDepth bounds how deep parentheses, NOT, signs and functions may nest.
const maxDepth = 64

// operand is what a part of the text means: a value or a condition, one of the two.
type operand struct {
	at        int
	value     expression
	condition predicate
}

// parser turns the text of a filter or an action into expressions.
type parser struct {
	lexer      lexer
	token      token // the next one
	names      *names
	parameters core.Properties
	depth      int
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
	return o.predicate()
}

// continuation says what may follow an operand at the end of a filter.
func (o operand) continuation() string {
	if o.condition != nil {
		return "AND, OR or the end of the text"
	}
	return "a comparison"
}

// predicate returns the operand as a condition: what may be boolean stands for itself.
func (o operand) predicate() (predicate, error) {
	if o.condition != nil {
		return o.condition, nil
	}
	switch v := o.value.(type) {
	case *userProperty, *namedProperty, systemProperty:
		return flag{v}, nil
	case constant:
		if v.isUnknown() || v.kind == boolean {
			return settled(truthOfFlag(v.datum)), nil
		}
	}
	return nil, faultAt(o.at, "expected a condition but found a value that is not compared with anything")
}

// expression returns the operand as a value.
func (o operand) expression() (expression, error) {
	if o.value == nil {
		return nil, faultAt(o.at, "expected a value but found a condition")
	}
	return o.value, nil
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
		c, err := next.predicate()
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
	c, err := o.predicate()
	if err != nil {
		return operand{}, err
	}
	return conditionAt(at, negation{c}, c), nil
}

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

// decided makes an operand of a condition, which is settled now if its values are constants.
func decided(at int, c predicate, values ...expression) operand {
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
	case *userProperty, *namedProperty, systemProperty:
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
	c, err := newLikeness(of, pat, escape, patternAt, escapeAt)
	if err != nil {
		return operand{}, err
	}
	if escape == nil {
		return decided(at, c, of, pat), nil
	}
	return decided(at, c, of, pat, escape), nil
}

// newLikeness compiles the pattern now if pattern and escape are constants.
func newLikeness(of, pat, escape expression, patternAt, escapeAt int) (predicate, error) {
	char := rune(-1)
	switch e := escape.(type) {
	case nil:
	case constant:
		if e.isUnknown() {
			return settled(Unknown), nil
		}
		var err error
		if char, err = escapeOf(e.datum); err != nil {
			return nil, &fault{escapeAt, err.Error()}
		}
	default:
		return &computedLikeness{of, pat, escape, patternAt}, nil
	}
	c, ok := pat.(constant)
	if !ok {
		return &computedLikeness{of, pat, escape, patternAt}, nil
	}
	if c.isUnknown() {
		return settled(Unknown), nil
	}
	if c.kind != text {
		return nil, faultAt(patternAt, "expected a text as the pattern of LIKE")
	}
	compiled, err := compilePattern(c.text, char)
	if err != nil {
		return nil, &fault{patternAt, err.Error()}
	}
	return &likeness{of, compiled}, nil
}

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
	if err != nil {
		return operand{}, &fault{c.at, err.Error()}
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
	case t.kind == tokenInteger && t.number >= 1<<63:
		return operand{}, beyondRange(t)
	case t.kind == tokenInteger:
		return constantOf(integerOf(int64(t.number)))
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
		return constantOf(d)
	case t.is("EXISTS"):
		return p.existence()
	case t.is("("):
		return p.parentheses()
	case t.kind == tokenName, t.kind == tokenWord && !t.isKeyword():
		return p.name()
	}
	return operand{}, p.expected("a value")
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
	isSystem := first.kind == tokenWord && strings.EqualFold(first.text, "sys")
	if !isSystem && (first.kind != tokenWord || !strings.EqualFold(first.text, "user")) {
		return operand{}, faultAt(first.at, "expected the scope sys or user before '.' but found %s; names with a dot are written in brackets", first)
	}
	if err := p.advance(); err != nil {
		return operand{}, err
	}
	name := p.token
	if name.kind != tokenName && (name.kind != tokenWord || name.isKeyword()) {
		return operand{}, p.expected("the name of a property")
	}
	v, err := p.scoped(isSystem, name.text, name.at)
	if err != nil {
		return operand{}, err
	}
	return operand{at: first.at, value: v}, p.advance()
}

func (p *parser) scoped(isSystem bool, name string, at int) (expression, error) {
	if !isSystem {
		return p.userProperty(name), nil
	}
	sys, err := systemNamed(name)
	if err != nil {
		return nil, &fault{at, err.Error()}
	}
	return systemProperty{sys}, nil
}

func (p *parser) userProperty(name string) *userProperty {
	return &userProperty{name: name, folded: fold(name), slot: p.names.slot(name)}
}

// function parses the arguments of the function that t names.
func (p *parser) function(t token) (operand, error) {
	isProperty := t.is("property") || t.is("p")
	if !isProperty && !t.is("newid") {
		return operand{}, faultAt(t.at, "there is no function '%.40s'; newid, property and p are there", t.text)
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
		return &namedProperty{name, at}, nil
	}
	if c.kind != text {
		return nil, faultAt(at, "expected a text as the name of a property")
	}
	isSystem, bare := cutScope(c.text)
	return p.scoped(isSystem, bare, at)
}
