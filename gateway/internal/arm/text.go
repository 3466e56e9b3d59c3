package arm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

func onText(f func(string) string) func([]any) (any, error) {
	return func(args []any) (any, error) {
		v, err := argument[string](args, 0)
		return f(v), err
	}
}

// onTexts returns a function on two texts that ignores their case.
func onTexts(f func(a, b string) any) func([]any) (any, error) {
	return func(args []any) (any, error) {
		return f(strings.ToLower(textOf(args[0])), strings.ToLower(textOf(args[1]))), nil
	}
}

func padLeft(args []any) (any, error) {
	text, pad := textOf(args[0]), " "
	width, ok := whole(args[1], 1000)
	if len(args) > 2 {
		pad = textOf(args[2])
	}
	if !ok || len(pad) != 1 {
		return nil, fmt.Errorf("the width is %v and the character %q: give a number up to 1000 and one character", args[1], pad)
	}
	return strings.Repeat(pad, max(0, width-len([]rune(text)))) + text, nil
}

// textOf returns a value in the form in which concat writes it.
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
	if all, ok, err := joined(args); ok || err != nil {
		return all, err
	}
	var b strings.Builder
	for _, a := range args {
		b.WriteString(textOf(a))
	}
	return b.String(), nil
}

// format replaces {0} and so on. Of formats such as {0:D3}, it supports only digits.
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
			return nil, fmt.Errorf("there is no argument for {%s}", place)
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
		if b.WriteString(shown); b.Len() > maxWork {
			return nil, errTooMuch
		}
		text = after
	}
}

func replace(args []any) (any, error) {
	text, old, by := textOf(args[0]), textOf(args[1]), textOf(args[2])
	if old == "" {
		return nil, errors.New("the text to search for is empty")
	}
	if n := strings.Count(text, old); n > 0 && len(by) > maxWork/n {
		return nil, fmt.Errorf("the result would have more than %d bytes", maxWork)
	}
	return strings.ReplaceAll(text, old, by), nil
}

func split(args []any) (any, error) {
	text, separators := textOf(args[0]), []any{args[1]}
	if list, ok := args[1].([]any); ok && len(list) > 0 {
		separators = list
	}
	first := textOf(separators[0])
	for _, other := range separators[1:] {
		text = strings.ReplaceAll(text, textOf(other), first)
	}
	all := []any{}
	for part := range strings.SplitSeq(text, first) {
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
	separator := textOf(args[1])
	if len(separator)*len(list) > maxWork {
		return nil, errTooMuch
	}
	return strings.Join(parts, separator), err
}

func substring(args []any) (any, error) {
	text := []rune(textOf(args[0]))
	from, ok := whole(args[1], len(text))
	n := len(text) - from
	if ok && len(args) > 2 {
		n, ok = whole(args[2], n)
	}
	if !ok {
		return nil, fmt.Errorf("%q has no such part", string(text))
	}
	return string(text[from : from+n]), nil
}
