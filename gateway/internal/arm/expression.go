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

type parser struct {
	text string
	at   int
	in   *scope
}

type unevaluated struct{ why string }

func (u unevaluated) Error() string { return u.why }

func unknownf(format string, args ...any) error { return unevaluated{fmt.Sprintf(format, args...)} }

func (s *scope) evaluate(text string) (any, error) {
	p := &parser{text: text, in: s}
	v, err := p.expression()
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(p.text) {
		return nil, fmt.Errorf("expected the end of the expression before %.20q", p.text[p.at:])
	}
	if id, ok := v.(identifier); ok {
		return nil, id.unknown()
	}
	return v, nil
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

func (p *parser) expression() (any, error) {
	shared := p.in.shared
	if shared.depth++; shared.depth > maxDepth {
		shared.depth--
		return nil, fmt.Errorf("the expression is nested deeper than %d levels", maxDepth)
	}
	defer func() { shared.depth-- }()
	v, err := p.operand()
	for err == nil {
		switch {
		case p.takes('.'):
			name := p.word()
			if name == "" {
				return nil, errors.New("expected a name after the dot")
			}
			v, err = memberOf(v, name)
		case p.takes('['):
			var index any
			if index, err = p.expression(); err == nil && !p.takes(']') {
				err = errors.New("expected ]")
			}
			if err == nil {
				v, err = element(v, index)
			}
		default:
			if later, ok := v.(pending); ok {
				return later.in.resolve(later.v)
			}
			return v, nil
		}
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

func (p *parser) operand() (any, error) {
	if p.takes('\'') {
		return p.quoted()
	}
	minus := p.takes('-')
	word := p.word()
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		if minus {
			n = -n
		}
		return float64(n), nil
	}
	if minus {
		return nil, fmt.Errorf("-%s is not a whole number", word)
	}
	if word == "" {
		return nil, fmt.Errorf("expected a value before %.20q", p.text[p.at:]+"]")
	}
	if p.takes('.') {
		word += "." + p.word()
	}
	if !p.takes('(') {
		return nil, fmt.Errorf("%s is not a value: put strings in single quotes", word)
	}
	return p.call(word)
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

// call parses the arguments and calls a function. If an argument cannot be evaluated, the call
// fails, except for if, coalesce, reference and resourceId, which may not need this argument.
func (p *parser) call(name string) (any, error) {
	if strings.EqualFold(name, "lambda") {
		return p.lambda()
	}
	var args []any
	var unknown error
	name = strings.ToLower(name)
	ofIDs := name == "reference" || strings.HasSuffix(name, "resourceid")
	lazy := ofIDs || name == "if" || name == "coalesce"
	for !p.takes(')') {
		if len(args) > 0 && !p.takes(',') {
			return nil, fmt.Errorf("%s(…): expected ',' or ')'", name)
		}
		from := p.at
		v, err := p.expression()
		if err != nil {
			_, isUnknown := errors.AsType[unevaluated](err)
			if p.at = from; !isUnknown && !lazy || !p.skip() {
				return nil, err
			}
			if v = (lateError{err}); !lazy && unknown == nil {
				unknown = err
			}
		}
		if id, ok := v.(identifier); ok && !ofIDs {
			unknown = cmp.Or(unknown, id.unknown())
		}
		args = append(args, v)
	}
	if unknown != nil {
		return nil, unknown
	}
	return p.in.function(name, args)
}

// lateError replaces an argument that cannot be evaluated. It fails only if a function uses it.
type lateError struct{ err error }

func (p *parser) skip() bool {
	for open := 0; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\'':
			p.at++
			if _, err := p.quoted(); err != nil {
				return false
			}
			p.at--
		case '(', '[':
			open++
		case ')', ']':
			if open == 0 {
				return true
			}
			open--
		case ',':
			if open == 0 {
				return true
			}
		}
	}
	return false
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
