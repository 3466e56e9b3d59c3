package arm

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// part returns the first n elements of a list or characters of a text, or the rest after them.
func part(args []any, first bool) (any, error) {
	n, ok := args[1].(float64)
	list, isList := args[0].([]any)
	text := []rune(fmt.Sprint(args[0]))
	if isList {
		text = nil
	} else if _, isText := args[0].(string); !isText || !ok {
		return nil, fmt.Errorf("%v has no part %v", args[0], args[1])
	}
	at := int(min(max(n, 0), float64(max(len(list), len(text)))))
	switch {
	case !isList && first:
		return string(text[:at]), nil
	case !isList:
		return string(text[at:]), nil
	case first:
		return list[:at:at], nil
	}
	return list[at:], nil
}

// items returns the members of an object, in the order of their names.
func items(args []any) (any, error) {
	object, err := argument[map[string]any](args, 0)
	all := []any{}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		all = append(all, map[string]any{"key": name, "value": object[name]})
	}
	return all, err
}

// whole returns v as a whole number from 0 to most, if it is one.
func whole(v any, most int) (int, bool) {
	n, ok := v.(float64)
	if !ok || !(n >= 0 && n <= float64(most)) || n != math.Trunc(n) {
		return 0, false
	}
	return int(n), true
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

// joined returns the elements of several lists; ok is false if the first argument is not a list.
func joined(args []any) (all []any, ok bool, err error) {
	if len(args) == 0 {
		return nil, false, nil
	}
	if _, ok := args[0].([]any); !ok {
		return nil, false, nil
	}
	all = []any{}
	for i := range args {
		list, err := argument[[]any](args, i)
		if err != nil {
			return nil, false, err
		}
		all = append(all, list...)
	}
	return all, true, nil
}

func union(args []any) (any, error) {
	elements, ok, err := joined(args)
	if err != nil {
		return nil, err
	}
	if ok {
		all := []any{}
		for _, v := range elements {
			if !has(all, v) {
				all = append(all, v)
			}
		}
		return all, nil
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
	n, ok := whole(args[1], maxCopies)
	if !ok {
		return nil, fmt.Errorf("argument 2 is %v: it must be 0 to %d", args[1], maxCopies)
	}
	all := make([]any, n)
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
