package rules

import (
	"crypto/rand"
	"strings"
)

// expression is a part of a SQL text that has a value.
type expression interface {
	// eval computes the value. What goes wrong is noted in the scope.
	eval(*scope) datum
	// fallible reports whether evaluation can go wrong.
	fallible() bool
}

// constant is a literal, or the value of a parameter.
type constant struct{ datum }

func (c constant) eval(*scope) datum { return c.datum }
func (constant) fallible() bool      { return false }

// userProperty is a user property named in the text.
type userProperty struct {
	name   string // as written
	folded string
	slot   int
}

func (p *userProperty) eval(s *scope) datum {
	if s.draft != nil {
		return s.drafted(p.folded)
	}
	return s.at(p.slot)
}
func (*userProperty) fallible() bool { return false }

// systemProperty is a system property named in the text.
type systemProperty struct{ *system }

func (p systemProperty) eval(s *scope) datum { return p.value(s.message, &s.facts) }
func (systemProperty) fallible() bool        { return false }

// namedProperty is property(expression): the name is computed.
type namedProperty struct {
	name expression
}

func (p *namedProperty) eval(s *scope) datum {
	name := p.name.eval(s)
	if name.kind != text {
		return datum{}
	}
	isSystem, bare := cutScope(name.text)
	if !isSystem {
		return s.user(fold(bare))
	}
	return systemNamed(bare).value(s.message, &s.facts)
}
func (p *namedProperty) fallible() bool { return p.name.fallible() }

// cutScope splits the scope from a computed name. Names with other dots in
// them are user properties.
func cutScope(name string) (isSystem bool, bare string) {
	if scope, bare, ok := strings.Cut(name, "."); ok {
		switch {
		case strings.EqualFold(scope, "sys"):
			return true, bare
		case strings.EqualFold(scope, "user"):
			return false, bare
		}
	}
	return false, name
}

// newID is newid(): another random UUID at each evaluation.
type newID struct{}

func (newID) eval(s *scope) datum {
	if !s.spend(0, 512) {
		return datum{}
	}
	var u [16]byte
	_, _ = rand.Read(u[:])                      // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80 // RFC 9562 §5.4: version 4
	return datum{kind: guid, text: string(u[:])}
}
func (newID) fallible() bool { return false }

// calculation is left operator right, or with no left the negative of right.
type calculation struct {
	operator    byte
	left, right expression
	at          int
}

func (c *calculation) eval(s *scope) datum {
	d, err := c.compute(s)
	if err != nil {
		s.fail(c.at, err)
	}
	return d
}

func (c *calculation) compute(s *scope) (datum, error) {
	if c.left == nil {
		return negate(c.right.eval(s))
	}
	left, right := c.left.eval(s), c.right.eval(s)
	if !s.spend(c.at, 2*(len(left.text)+len(right.text))) { // what joining copies
		return datum{}, errWork
	}
	return calculate(c.operator, left, right)
}

// fallible: sums overflow, divisors are zero.
func (*calculation) fallible() bool { return true }

// positive is +expression: the value of a number, unknown for all else.
type positive struct{ expression }

func (p positive) eval(s *scope) datum {
	if d := p.expression.eval(s); d.isNumber() {
		return d
	}
	return datum{}
}
