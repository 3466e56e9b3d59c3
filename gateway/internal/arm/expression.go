package arm

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// An expression is a string in square brackets. It begins with a function call, a string in single
// quotes or a number. Any number of .members and [indexes] may follow.

// node is a parsed expression, or a part of one.
type node struct {
	text     string  // as written
	function string  // name of the called function, in lower case; "" for a literal
	args     []*node // of the function
	value    any     // of a literal
	path     []*node // indexes or names of members that select a part of the value
}

type parser struct {
	text  string
	at    int
	depth int
}

type unevaluated struct{ why string }

func (u unevaluated) Error() string { return u.why }

func unknownf(format string, args ...any) error { return unevaluated{fmt.Sprintf(format, args...)} }

var errTooDeep = fmt.Errorf("the expression is nested deeper than %d levels", maxDepth)

func parse(text string) (*node, error) {
	p := &parser{text: text}
	n, err := p.expression()
	if p.space(); err == nil && p.at < len(p.text) {
		return nil, fmt.Errorf("expected the end of the expression before %.20q", p.text[p.at:])
	}
	return n, err
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) takes(c byte) bool {
	p.space()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) expression() (*node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errTooDeep
	}
	defer func() { p.depth-- }()
	p.space()
	from, n := p.at, &node{}
	err := p.operand(n)
	for err == nil {
		n.text = p.text[from:p.at]
		var index *node
		switch {
		case p.takes('.'):
			name := p.word()
			if name == "" {
				return nil, errors.New("expected a name after the dot")
			}
			index = &node{value: name}
		case p.takes('['):
			if index, err = p.expression(); err == nil && !p.takes(']') {
				err = errors.New("expected ]")
			}
		default:
			return n, nil
		}
		n.path = append(n.path, index)
	}
	return nil, err
}

func (p *parser) word() string {
	from := p.at
	for p.at < len(p.text) && (p.text[p.at] == '_' || p.text[p.at] >= '0' && p.text[p.at] <= '9' || p.text[p.at]|0x20 >= 'a' && p.text[p.at]|0x20 <= 'z') {
		p.at++
	}
	return p.text[from:p.at]
}

func (p *parser) operand(n *node) (err error) {
	if p.takes('\'') {
		n.value, err = p.quoted()
		return err
	}
	minus := p.takes('-')
	word := p.word()
	if number, err := strconv.ParseInt(word, 10, 64); err == nil {
		if minus {
			number = -number
		}
		n.value = float64(number)
		return nil
	}
	if minus {
		return fmt.Errorf("-%s is not a whole number", word)
	}
	if word == "" {
		return fmt.Errorf("expected a value before %.20q", p.text[p.at:]+"]")
	}
	if p.takes('.') {
		word += "." + p.word()
	}
	if !p.takes('(') {
		return fmt.Errorf("%s is not a value: put strings in single quotes", word)
	}
	n.function = strings.ToLower(word)
	for !p.takes(')') {
		if len(n.args) > 0 && !p.takes(',') {
			return fmt.Errorf("%s(…): expected ',' or ')'", n.function)
		}
		arg, err := p.expression()
		if err != nil {
			return err
		}
		n.args = append(n.args, arg)
	}
	return nil
}

// quoted reads a string up to its closing quote. In the string, two quotes stand for one.
func (p *parser) quoted() (string, error) {
	var b strings.Builder
	for p.at < len(p.text) {
		if c := p.text[p.at]; c != '\'' {
			b.WriteByte(c)
		} else if p.at+1 < len(p.text) && p.text[p.at+1] == '\'' {
			b.WriteByte(c)
			p.at++
		} else {
			p.at++
			return b.String(), nil
		}
		p.at++
	}
	return "", errors.New("a string has no closing quote")
}

func (s *scope) evaluate(text string) (any, error) {
	n, err := parse(text)
	if err != nil {
		return nil, err
	}
	return s.known(n)
}

// known returns the value of n, which must not be an identifier.
func (s *scope) known(n *node) (any, error) {
	v, err := s.value(n)
	if id, ok := v.(identifier); ok {
		return nil, id.unknown()
	}
	return v, err
}

func (s *scope) value(n *node) (v any, err error) {
	if s.shared.depth++; s.shared.depth > maxDepth {
		err = errTooDeep
	}
	defer func() { s.shared.depth-- }()
	if v = n.value; n.function != "" && err == nil {
		v, err = s.call(n)
	}
	for i := 0; i < len(n.path) && err == nil; i++ {
		var index any
		if index, err = s.known(n.path[i]); err == nil {
			v, err = element(v, index)
		}
	}
	if err != nil {
		return nil, err
	}
	if later, ok := v.(pending); ok {
		return later.in.resolve(later.v)
	}
	return v, nil
}

// call calls a function. If an argument cannot be evaluated, the call fails, except that if and
// coalesce evaluate only the arguments that they need, and that ids may have unknown parts.
func (s *scope) call(n *node) (any, error) {
	switch {
	case n.function == "lambda" && len(n.args) > 0:
		return lambda{n.args, s}, nil
	case n.function == "if" && len(n.args) > 2:
		switch condition, _ := s.known(n.args[0]); condition { // a condition that is not a boolean fails below
		case true:
			return s.known(n.args[1])
		case false:
			return s.known(n.args[2])
		}
	case n.function == "coalesce":
		for _, arg := range n.args {
			if v, err := s.known(arg); v != nil || err != nil {
				return v, err
			}
		}
		return nil, nil
	}
	evaluate, ofIDs := s.known, n.function == "reference" || strings.HasSuffix(n.function, "resourceid")
	if ofIDs {
		evaluate = s.value
	}
	args := make([]any, len(n.args))
	var unknown error
	for i := range args {
		v, err := evaluate(n.args[i])
		switch _, isUnknown := errors.AsType[unevaluated](err); {
		case err == nil:
			args[i] = v
		case ofIDs && (i > 0 || n.function != "reference"):
		case isUnknown:
			unknown = cmp.Or(unknown, err)
		default:
			return nil, err
		}
	}
	if unknown != nil {
		return nil, unknown
	}
	return s.function(n.function, args)
}

// member returns the member of the object v with this name. Like Azure, it ignores case.
func member(v any, name string) (any, error) {
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%v is not an object, so it has no member %s", v, name)
	}
	if value, ok := object[name]; ok {
		return value, nil
	}
	for key, value := range object {
		if strings.EqualFold(key, name) {
			return value, nil
		}
	}
	return nil, fmt.Errorf("the member %s does not exist", name)
}

func element(v, index any) (any, error) {
	if name, ok := index.(string); ok {
		return memberOf(v, name)
	}
	if later, ok := v.(pending); ok {
		var err error
		if v, err = later.in.resolve(later.v); err != nil {
			return nil, err
		}
	}
	list, _ := v.([]any)
	n, ok := whole(index, len(list)-1)
	if !ok {
		return nil, fmt.Errorf("the element %v does not exist", index)
	}
	return list[n], nil
}
