package rules

import (
	"fmt"
	"math"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

type expression interface {
	// eval records an error in the scope.
	eval(*scope) datum
}

type constant struct{ datum }

func (c constant) eval(*scope) datum { return c.datum }

type userProperty struct {
	name   string
	folded string
	slot   int
}

func (p *userProperty) eval(s *scope) datum {
	if s.draft != nil {
		return s.drafted(p.folded)
	}
	return s.at(p.slot)
}

type systemProperty struct{ *system }

func (p systemProperty) eval(s *scope) datum { return p.value(s.message, &s.facts) }

// namedProperty is property(name) with a computed name.
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

// cutScope cuts "sys." or "user." off a computed name. Without either, it names a user property.
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

// newID is newid(), which returns another random UUID at each evaluation.
type newID struct{}

func (newID) eval(s *scope) datum {
	if !s.spend(0, 512) {
		return datum{}
	}
	u := value.NewUUID()
	return datum{kind: guid, text: string(u[:])}
}

type calculation struct {
	operator    byte
	left, right expression // left is nil for a sign
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
	if c.left == nil { // a sign
		d := c.right.eval(s)
		switch {
		case !d.isNumber():
			return datum{}, nil
		case c.operator == '+':
			return d, nil
		}
		return calculate('-', integerOf(0), d)
	}
	left, right := c.left.eval(s), c.right.eval(s)
	if !s.spend(c.at, 2*(len(left.text)+len(right.text))) { // for copying the bytes that are joined
		return datum{}, errWork
	}
	return calculate(c.operator, left, right)
}

// Truth is an answer in three-valued logic. The zero Truth is Unknown. OR is the larger of two.
type Truth int8

const (
	False   Truth = -1
	Unknown Truth = 0
	True    Truth = 1
)

func truthOf(b bool) Truth {
	if b {
		return True
	}
	return False
}

func (t Truth) Not() Truth { return -t }

func (t Truth) String() string {
	switch {
	case t > 0:
		return "TRUE"
	case t < 0:
		return "FALSE"
	default:
		return "UNKNOWN"
	}
}

type operand struct {
	at        int
	value     expression
	condition predicate
}

// predicate returns the operand as a condition, or an error if its value can never be boolean.
func (o operand) predicate() (predicate, error) {
	switch c, ok := o.value.(constant); {
	case o.condition != nil:
		return o.condition, nil
	case o.isProperty():
		return flag{o.value}, nil
	case ok && (c.isUnknown() || c.kind == boolean):
		return settled(truthOfFlag(c.datum)), nil
	}
	return nil, faultAt(o.at, "expected a condition but found a value that is not compared with anything")
}

// maxText limits a concatenation in bytes, like a message without its body.
const maxText = core.MaxHeaderBytes

// The result is unknown if an operand is, or if op (+ - * / %) is not defined for the operands.
func calculate(op byte, a, b datum) (datum, error) {
	if a.isUnknown() || b.isUnknown() {
		return datum{}, nil
	}
	if op == '+' && (a.kind == text || b.kind == text) {
		return concatenate(a, b)
	}
	if !a.isNumber() || !b.isNumber() {
		return datum{}, nil
	}
	if (op == '/' || op == '%') && b.real() == 0 {
		return datum{}, fmt.Errorf("division by zero")
	}
	if a.kind == integer && b.kind == integer {
		n, ok := calculateIntegers(op, a.int(), b.int())
		if !ok {
			return datum{}, fmt.Errorf("%d %c %d is outside the range of 64-bit integers", a.int(), op, b.int())
		}
		return integerOf(n), nil
	}
	return realOf(calculateReals(op, a.real(), b.real())), nil
}

func calculateIntegers(op byte, a, b int64) (n int64, ok bool) {
	switch op {
	case '+':
		n = a + b
		return n, (n > a) == (b > 0)
	case '-':
		n = a - b
		return n, (n < a) == (b > 0)
	case '*':
		n = a * b
		return n, a == 0 || n/a == b && (a != -1 || b != math.MinInt64)
	case '/':
		return a / b, a != math.MinInt64 || b != -1
	default:
		return a % b, true
	}
}

func calculateReals(op byte, a, b float64) float64 {
	switch op {
	case '+':
		return a + b
	case '-':
		return a - b
	case '*':
		return a * b
	case '/':
		return a / b
	default:
		return math.Mod(a, b)
	}
}

func concatenate(a, b datum) (datum, error) {
	s, ok := a.render()
	t, ok2 := b.render()
	switch {
	case !ok || !ok2:
		return datum{}, nil
	case len(s)+len(t) > maxText:
		return datum{}, fmt.Errorf("the joined string would have more than %d bytes", maxText)
	}
	return textOf(s + t), nil
}
