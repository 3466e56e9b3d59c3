package arm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

func onTexts[R any](f func(a, b string) R) func(a, b text) R {
	return func(a, b text) R { return f(strings.ToLower(string(a)), strings.ToLower(string(b))) }
}

func padLeft(v text, width any, pads ...text) (string, error) {
	pad := string(append(pads, " ")[0])
	n, ok := whole(width, 1000)
	if !ok || len(pad) != 1 {
		return "", fmt.Errorf("the width is %v and the character %q: use a width of at most 1000 and one character", width, pad)
	}
	return strings.Repeat(pad, max(0, n-len([]rune(v)))) + string(v), nil
}

// textOf converts v to a string as concat does.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	text, _ := json.Marshal(v) // no error: v was decoded from JSON
	return string(text)
}

func concat(args ...any) (any, error) {
	if all, ok, err := joined(args); ok || err != nil {
		return all, err
	}
	var b strings.Builder
	for _, a := range args {
		b.WriteString(textOf(a))
	}
	return b.String(), nil
}

// format implements the template function format. It supports only padding of numbers ({0:D3}).
func format(text string, args ...any) (string, error) {
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
		if !ok || err != nil || n < 0 || n >= len(args) {
			return "", fmt.Errorf("there is no argument for {%s}", place)
		}
		shown := textOf(args[n])
		if formed {
			width, err := strconv.Atoi(strings.TrimLeft(form, "Dd0"))
			if strings.Trim(form, "0") == "" {
				width, err = len(form), nil
			}
			if err != nil || width > 99 {
				return "", unknownf("the format of {%s} is not supported", place)
			}
			shown = strings.Repeat("0", max(0, width-len(shown))) + shown
		}
		if b.WriteString(shown); b.Len() > maxWork {
			return "", errTooMuch
		}
		text = after
	}
}

func replace(in, old, by text) (string, error) {
	if old == "" {
		return "", errors.New("the text to search for is empty")
	}
	if n := strings.Count(string(in), string(old)); n > 0 && len(by) > maxWork/n {
		return "", fmt.Errorf("the result would have more than %d bytes: use shorter strings", maxWork)
	}
	return strings.ReplaceAll(string(in), string(old), string(by)), nil
}

func split(v text, by any) []any {
	whole, separators := string(v), []any{by}
	if list, ok := by.([]any); ok && len(list) > 0 {
		separators = list
	}
	first := textOf(separators[0])
	for _, other := range separators[1:] {
		whole = strings.ReplaceAll(whole, textOf(other), first)
	}
	all := []any{}
	for part := range strings.SplitSeq(whole, first) {
		all = append(all, part)
	}
	return all
}

func join(list []any, separator text) (string, error) {
	var parts []string
	for _, v := range list {
		parts = append(parts, textOf(v))
	}
	if len(separator)*len(list) > maxWork {
		return "", errTooMuch
	}
	return strings.Join(parts, string(separator)), nil
}

func substring(v text, start any, length ...any) (string, error) {
	text := []rune(v)
	from, ok := whole(start, len(text))
	n := len(text) - from
	if ok && len(length) > 0 {
		n, ok = whole(length[0], n)
	}
	if !ok {
		return "", fmt.Errorf("the requested part is outside the string %q", string(text))
	}
	return string(text[from : from+n]), nil
}
