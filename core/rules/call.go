package rules

import (
	"errors"
	"slices"
	"strconv"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// Call is plugin('name', …), a condition that a router decides. Calls with the same name and
// arguments are equal.
type Call struct {
	Name       string // name of the router, as the rule spells it
	parameters string
}

// Parameters returns the arguments after the plugin's name. An argument of the form name = value
// has that name. The name of any other is its position, from "1" on.
func (c Call) Parameters() core.Properties {
	if c.parameters == "" {
		return core.Properties{}
	}
	return core.RawProperties([]byte(c.parameters))
}

var errNoPlugin = errors.New("plugins cannot be called here: only a running gateway can call the plugins of a rule")

// question is a Call as a condition. The answer is True or False.
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

// call parses the arguments of plugin('name', value, name = value, …), from the parenthesis on.
func (p *parser) call(at int) operand {
	p.need("(")
	c := Call{Name: p.token.text}
	if p.token.kind != tokenString || c.Name == "" {
		return p.expected("the name of a plugin, as a string")
	}
	p.advance()
	entries, mark := value.OpenMap(nil)
	var names []string
	for p.take(",") {
		at := p.token.at
		name, v := p.argument(len(names) + 1)
		if slices.Contains(names, name) {
			p.fail(faultAt(at, "the argument '%.40s' is listed twice", name))
		}
		names = append(names, name)
		entries = v.encode(value.AppendString(entries, name))
	}
	if len(names) > 0 {
		c.parameters = string(value.CloseMap(entries, mark, len(names)))
	}
	p.calls, p.fallible = append(p.calls, c), true
	p.need(")")
	return operand{at: at, condition: &question{c, at}}
}

func (p *parser) argument(n int) (name string, v constant) {
	name = strconv.Itoa(n)
	if t := p.token; t.isName() {
		name = t.text
		p.advance()
		p.need("=")
	}
	at := p.token.at
	v, ok := p.valueOf(p.sum).(constant)
	if !ok || v.isUnknown() {
		p.fail(faultAt(at, "expected a constant or a parameter: leave out properties, because the plugin reads the whole message"))
	}
	return name, v
}
