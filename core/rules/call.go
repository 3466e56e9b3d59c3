package rules

import (
	"errors"
	"slices"
	"strconv"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// Call is plugin('name', …) in a filter: a question that a router answers. Calls
// that ask the same are equal.
type Call struct {
	Name       string // of the router, as written
	parameters string // encoded
}

// Parameters are the values behind the name: those that are given as name =
// value by that name, the others by their place, "1" for the first.
func (c Call) Parameters() core.Properties {
	if c.parameters == "" {
		return core.Properties{}
	}
	return core.RawProperties([]byte(c.parameters))
}

var errNoPlugin = errors.New("no plugin can be asked here")

// question is a Call as a condition: the answer is True or False.
type question struct {
	Call
	at int
}

func (q *question) truth(s *scope) Truth {
	if s.facts.Ask == nil {
		s.fail(q.at, errNoPlugin)
		return Unknown
	}
	yes, err := s.facts.Ask(q.Call)
	if err != nil {
		s.fail(q.at, err)
		return Unknown
	}
	return truthOf(yes)
}

func (*question) fallible() bool { return true }

// call parses plugin('name', value, name = value, …), from the parenthesis on.
func (p *parser) call(at int) (operand, error) {
	if err := p.advance(); err != nil { // (
		return operand{}, err
	}
	name := p.token
	if name.kind != tokenString || name.text == "" {
		return operand{}, p.expected("the name of a plugin, a text")
	}
	if err := p.advance(); err != nil {
		return operand{}, err
	}
	c := Call{Name: name.text}
	entries, mark := value.OpenMap(nil)
	var names []string
	for {
		more, err := p.take(",")
		if err != nil {
			return operand{}, err
		}
		if !more {
			break
		}
		at := p.token.at
		name, v, err := p.argument(len(names) + 1)
		if err != nil {
			return operand{}, err
		}
		if slices.Contains(names, name) {
			return operand{}, faultAt(at, "the argument '%.40s' is there twice", name)
		}
		names = append(names, name)
		entries = v.encode(value.AppendString(entries, name))
	}
	if len(names) > 0 {
		c.parameters = string(value.CloseMap(entries, mark, len(names)))
	}
	p.calls = append(p.calls, c)
	return operand{at: at, condition: &question{c, at}}, p.need(")")
}

// argument parses the n-th argument of a call.
func (p *parser) argument(n int) (name string, v constant, err error) {
	name = strconv.Itoa(n)
	if t := p.token; t.kind == tokenName || t.kind == tokenWord && !t.isKeyword() {
		name = t.text
		if err := p.advance(); err != nil {
			return "", v, err
		}
		if err := p.need("="); err != nil {
			return "", v, err
		}
	}
	at := p.token.at
	e, err := p.valueOf(p.sum)
	if err != nil {
		return "", v, err
	}
	v, ok := e.(constant)
	if !ok || v.isUnknown() {
		return "", v, faultAt(at, "expected a constant or a parameter: a plugin sees the message itself")
	}
	return name, v, nil
}
