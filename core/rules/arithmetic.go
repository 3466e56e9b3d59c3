package rules

import (
	"fmt"
	"math"

	"github.com/crosstown-mq/crosstown/core"
)

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
