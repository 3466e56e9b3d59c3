package arm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
)

// An expression is what a text in brackets holds: a call, a text in single quotes or a number, followed
// by members and indexes.

// parser evaluates one expression while it reads it.
type parser struct {
	text string
	at   int
	in   *scope
}

// unevaluated is why an expression has no value outside of Azure.
type unevaluated struct{ why string }

func (u unevaluated) Error() string { return u.why }

func unknownf(format string, args ...any) error { return unevaluated{fmt.Sprintf(format, args...)} }

// evaluate is the value of an expression, without its brackets.
func (s *scope) evaluate(text string) (any, error) {
	p := &parser{text: text, in: s}
	v, err := p.expression()
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(p.text) {
		return nil, fmt.Errorf("%.20q does not belong there", p.text[p.at:])
	}
	return v, nil
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// takes reads a character, if it is the next.
func (p *parser) takes(c byte) bool {
	p.space()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) expression() (any, error) {
	v, err := p.operand()
	for err == nil {
		switch {
		case p.takes('.'):
			name := p.word()
			if name == "" {
				return nil, errors.New("a name is missing behind the dot")
			}
			v, err = member(v, name)
		case p.takes('['):
			var index any
			if index, err = p.expression(); err == nil && !p.takes(']') {
				err = errors.New("a ] is missing")
			}
			if err == nil {
				v, err = element(v, index)
			}
		default:
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
	if word == "" || minus {
		return nil, fmt.Errorf("a value is missing before %.20q", p.text[p.at:])
	}
	if p.takes('.') { // a function of the template's own
		word += "." + p.word()
	}
	if !p.takes('(') {
		return nil, fmt.Errorf("%s is no value: a text is written in single quotes", word)
	}
	return p.call(word)
}

// quoted reads a text behind its first quote; two quotes stand for one.
func (p *parser) quoted() (any, error) {
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
	return nil, errors.New("a text has no closing quote")
}

// call reads the arguments of a function and calls it. Where an argument has no value, neither has the
// call, except that if and coalesce need not all of theirs.
func (p *parser) call(name string) (any, error) {
	var args []any
	var unknown error
	lazy := strings.EqualFold(name, "if") || strings.EqualFold(name, "coalesce")
	for !p.takes(')') {
		if len(args) > 0 && !p.takes(',') {
			return nil, fmt.Errorf("a , or ) is missing in %s(…)", name)
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
		args = append(args, v)
	}
	if unknown != nil {
		return nil, unknown
	}
	return p.in.function(strings.ToLower(name), args)
}

// lateError is an argument without a value, which may not be needed.
type lateError struct{ err error }

// skip passes over an argument that has no value.
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

// member is a member of an object, by a name without regard to case, as Azure finds it.
func member(v any, name string) (any, error) {
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%v has no member %s", v, name)
	}
	if value, ok := object[name]; ok {
		return value, nil
	}
	for key, value := range object {
		if strings.EqualFold(key, name) {
			return value, nil
		}
	}
	return nil, fmt.Errorf("there is no member %s", name)
}

func element(v, index any) (any, error) {
	if name, ok := index.(string); ok {
		return member(v, name)
	}
	list, isList := v.([]any)
	n, isNumber := index.(float64)
	if !isList || !isNumber || n < 0 || int(n) >= len(list) {
		return nil, fmt.Errorf("there is no element %v", index)
	}
	return list[int(n)], nil
}

// function calls a function. Those that only Azure knows have no value.
func (s *scope) function(name string, args []any) (any, error) {
	if f, ok := s.special(name); ok {
		return f(args)
	}
	f, ok := functions[name]
	if !ok {
		return nil, unknownf("%s(…) has no value outside of Azure", name)
	}
	v, err := f(args)
	if err != nil {
		return nil, fmt.Errorf("%s(…): %w", name, err)
	}
	return v, nil
}

// special are the functions that depend on where they are called.
func (s *scope) special(name string) (func(args []any) (any, error), bool) {
	switch name {
	case "parameters":
		return func(args []any) (any, error) { return s.named(args, s.parameter) }, true
	case "variables":
		return func(args []any) (any, error) { return s.named(args, s.variable) }, true
	case "copyindex":
		return s.copyIndex, true
	}
	return nil, false
}

func (s *scope) named(args []any, get func(name string) (any, error)) (any, error) {
	name, err := argument[string](args, 0)
	if err != nil {
		return nil, err
	}
	return get(name)
}

// copyIndex is copyIndex(name, offset), both optional.
func (s *scope) copyIndex(args []any) (any, error) {
	loop, offset := "", 0.0
	for _, a := range args {
		switch a := a.(type) {
		case string:
			loop = a
		case float64:
			offset = a
		}
	}
	i, ok := s.loops[strings.ToLower(loop)]
	if !ok {
		return nil, fmt.Errorf("copyIndex: there is no loop %q around it", loop)
	}
	return float64(i) + offset, nil
}

func argument[T any](args []any, i int) (T, error) {
	if i >= len(args) {
		return *new(T), fmt.Errorf("argument %d is missing", i+1)
	}
	v, ok := args[i].(T)
	if !ok {
		return v, fmt.Errorf("argument %d is %v", i+1, args[i])
	}
	return v, nil
}

// functions are those whose value depends on their arguments alone.
var functions map[string]func(args []any) (any, error)

func init() { // some call each other
	functions = map[string]func(args []any) (any, error){
		"concat": concat, "format": format, "if": choose, "coalesce": coalesce, "length": length, "union": union, "range": numbers,
		"true": constant(true), "false": constant(false), "null": constant(nil),
		"string":      func(args []any) (any, error) { return textOf(args[0]), nil },
		"createarray": func(args []any) (any, error) { return append([]any{}, args...), nil },
		"array": func(args []any) (any, error) {
			if list, ok := args[0].([]any); ok {
				return list, nil
			}
			return args[:1], nil
		},
		"createobject": func(args []any) (any, error) {
			all := map[string]any{}
			for i := 0; i+1 < len(args); i += 2 {
				all[textOf(args[i])] = args[i+1]
			}
			return all, nil
		},
		"equals": func(args []any) (any, error) {
			a, isText := args[0].(string)
			b, both := args[1].(string)
			return isText && both && strings.EqualFold(a, b) || reflect.DeepEqual(args[0], args[1]), nil
		},
		"not":     func(args []any) (any, error) { v, err := argument[bool](args, 0); return !v, err },
		"and":     logic(false),
		"or":      logic(true),
		"tolower": onText(strings.ToLower),
		"toupper": onText(strings.ToUpper),
		"json": func(args []any) (v any, err error) {
			text, err := argument[string](args, 0)
			if err == nil {
				err = json.Unmarshal([]byte(text), &v)
			}
			return v, err
		},
		"tryget": func(args []any) (any, error) {
			v := args[0]
			for _, name := range args[1:] {
				var err error
				if v, err = element(v, name); err != nil {
					return nil, nil
				}
			}
			return v, nil
		},
		"trim":      onText(strings.TrimSpace),
		"empty":     func(args []any) (any, error) { return isEmpty(args[0]), nil },
		"contains":  contains,
		"int":       func(args []any) (any, error) { return strconv.ParseFloat(textOf(args[0]), 64) },
		"bool":      func(args []any) (any, error) { return strconv.ParseBool(strings.ToLower(textOf(args[0]))) },
		"add":       arithmetic(func(a, b float64) any { return a + b }),
		"sub":       arithmetic(func(a, b float64) any { return a - b }),
		"mul":       arithmetic(func(a, b float64) any { return a * b }),
		"less":      arithmetic(func(a, b float64) any { return a < b }),
		"greater":   arithmetic(func(a, b float64) any { return a > b }),
		"min":       arithmetic(func(a, b float64) any { return min(a, b) }),
		"max":       arithmetic(func(a, b float64) any { return max(a, b) }),
		"first":     func(args []any) (any, error) { return edge(args, false) },
		"last":      func(args []any) (any, error) { return edge(args, true) },
		"replace":   replace,
		"split":     split,
		"join":      join,
		"substring": substring,
		"startswith": func(args []any) (any, error) {
			return strings.HasPrefix(strings.ToLower(textOf(args[0])), strings.ToLower(textOf(args[1]))), nil
		},
		"endswith": func(args []any) (any, error) {
			return strings.HasSuffix(strings.ToLower(textOf(args[0])), strings.ToLower(textOf(args[1]))), nil
		},
	}
	for name, f := range functions {
		least := map[string]int{
			"string": 1, "array": 1, "equals": 2, "empty": 1, "contains": 2, "int": 1, "bool": 1, "startswith": 2, "endswith": 2, "length": 1, "if": 3,
			"replace": 3, "split": 2, "join": 2, "substring": 2, "first": 1, "last": 1, "range": 2, "format": 1, "tryget": 1,
		}[name]
		functions[name] = func(args []any) (any, error) {
			if len(args) < least {
				return nil, fmt.Errorf("it needs %d arguments and has %d", least, len(args))
			}
			return f(args)
		}
	}
}

func constant(v any) func([]any) (any, error) { return func([]any) (any, error) { return v, nil } }

func onText(f func(string) string) func([]any) (any, error) {
	return func(args []any) (any, error) {
		v, err := argument[string](args, 0)
		return f(v), err
	}
}

// logic is or where short is true, else and.
func logic(short bool) func([]any) (any, error) {
	return func(args []any) (any, error) {
		for i := range args {
			if v, err := argument[bool](args, i); err != nil || v == short {
				return v, err
			}
		}
		return !short, nil
	}
}

func arithmetic(f func(a, b float64) any) func([]any) (any, error) {
	return func(args []any) (any, error) {
		a, err := argument[float64](args, 0)
		if err != nil {
			return nil, err
		}
		b, err := argument[float64](args, 1)
		if err != nil {
			return nil, err
		}
		return f(a, b), nil
	}
}

// textOf is a value as concat writes it.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	text, _ := json.Marshal(v) // it came from JSON
	return string(text)
}

// concat joins texts, or lists.
func concat(args []any) (any, error) {
	if len(args) > 0 {
		if _, ok := args[0].([]any); ok {
			all := []any{}
			for i := range args {
				list, err := argument[[]any](args, i)
				if err != nil {
					return nil, err
				}
				all = append(all, list...)
			}
			return all, nil
		}
	}
	var b strings.Builder
	for _, a := range args {
		b.WriteString(textOf(a))
	}
	return b.String(), nil
}

// format replaces {0} and so on; of a form such as {0:D3} only digits are known.
func format(args []any) (any, error) {
	text, err := argument[string](args, 0)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "{")
		b.WriteString(strings.ReplaceAll(before, "}}", "}"))
		if !ok {
			return b.String(), nil
		}
		if strings.HasPrefix(rest, "{") {
			b.WriteByte('{')
			text = rest[1:]
			continue
		}
		place, after, ok := strings.Cut(rest, "}")
		number, form, formed := strings.Cut(place, ":")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || n < 0 || n+1 >= len(args) {
			return nil, fmt.Errorf("{%s} stands for no argument", place)
		}
		shown := textOf(args[n+1])
		if formed {
			width, err := strconv.Atoi(strings.TrimLeft(form, "Dd0"))
			if strings.Trim(form, "0") == "" {
				width, err = len(form), nil
			}
			if err != nil || width > 99 {
				return nil, unknownf("the form of {%s} is not known", place)
			}
			shown = strings.Repeat("0", max(0, width-len(shown))) + shown
		}
		b.WriteString(shown)
		text = after
	}
}

func choose(args []any) (any, error) {
	if late, ok := args[0].(lateError); ok {
		return nil, late.err
	}
	condition, err := argument[bool](args, 0)
	if err != nil {
		return nil, err
	}
	v := args[2]
	if condition {
		v = args[1]
	}
	if late, ok := v.(lateError); ok {
		return nil, late.err
	}
	return v, nil
}

func coalesce(args []any) (any, error) {
	for _, a := range args {
		if late, ok := a.(lateError); ok {
			return nil, late.err
		}
		if a != nil {
			return a, nil
		}
	}
	return nil, nil
}

func isEmpty(v any) bool {
	if v == nil {
		return true
	}
	n, err := length([]any{v})
	return err == nil && n == 0.0
}

func length(args []any) (any, error) {
	switch v := args[0].(type) {
	case string:
		return float64(len([]rune(v))), nil
	case []any:
		return float64(len(v)), nil
	case map[string]any:
		return float64(len(v)), nil
	}
	return nil, fmt.Errorf("%v has no length", args[0])
}

func union(args []any) (any, error) {
	if len(args) > 0 {
		if _, ok := args[0].([]any); ok {
			all := []any{}
			for i := range args {
				list, err := argument[[]any](args, i)
				if err != nil {
					return nil, err
				}
				for _, v := range list {
					if !has(all, v) {
						all = append(all, v)
					}
				}
			}
			return all, nil
		}
	}
	all := map[string]any{}
	for i := range args {
		object, err := argument[map[string]any](args, i)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, object)
	}
	return all, nil
}

func has(list []any, v any) bool {
	for _, x := range list {
		if reflect.DeepEqual(x, v) {
			return true
		}
	}
	return false
}

func contains(args []any) (any, error) {
	switch v := args[0].(type) {
	case string:
		return strings.Contains(v, textOf(args[1])), nil
	case []any:
		return has(v, args[1]), nil
	case map[string]any:
		_, err := member(v, textOf(args[1]))
		return err == nil, nil
	}
	return nil, fmt.Errorf("%v contains nothing", args[0])
}

func numbers(args []any) (any, error) {
	first, err := argument[float64](args, 0)
	if err != nil {
		return nil, err
	}
	n, err := argument[float64](args, 1)
	if err != nil || n < 0 || n > maxCopies {
		return nil, fmt.Errorf("argument 2 is %v", args[1])
	}
	all := make([]any, int(n))
	for i := range all {
		all[i] = first + float64(i)
	}
	return all, nil
}

func edge(args []any, last bool) (any, error) {
	list, ok := args[0].([]any)
	if text, isText := args[0].(string); isText {
		for _, r := range text {
			list = append(list, string(r))
		}
		ok = true
	}
	if !ok || len(list) == 0 {
		return nil, errors.New("there is no element")
	}
	if last {
		return list[len(list)-1], nil
	}
	return list[0], nil
}

func replace(args []any) (any, error) {
	return strings.ReplaceAll(textOf(args[0]), textOf(args[1]), textOf(args[2])), nil
}

func split(args []any) (any, error) {
	all := []any{}
	for part := range strings.SplitSeq(textOf(args[0]), textOf(args[1])) {
		all = append(all, part)
	}
	return all, nil
}

func join(args []any) (any, error) {
	list, err := argument[[]any](args, 0)
	var parts []string
	for _, v := range list {
		parts = append(parts, textOf(v))
	}
	return strings.Join(parts, textOf(args[1])), err
}

func substring(args []any) (any, error) {
	text := []rune(textOf(args[0]))
	from, err := argument[float64](args, 1)
	n := float64(len(text)) - from
	if err == nil && len(args) > 2 {
		n, err = argument[float64](args, 2)
	}
	if err != nil || from < 0 || n < 0 || from+n > float64(len(text)) {
		return nil, fmt.Errorf("%q has no such part", string(text))
	}
	return string(text[int(from):int(from+n)]), nil
}
