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

// part takes a list, or a string as a list of characters. If first is true, part returns the first
// count elements, otherwise the elements after these.
func part(v, count any, first bool) (any, error) {
	n, ok := count.(float64)
	list, isList := v.([]any)
	text := []rune(fmt.Sprint(v))
	if isList {
		text = nil
	} else if _, isText := v.(string); !isText || !ok {
		return nil, fmt.Errorf("the arguments are %v and %v: use a list or a string, and a number", v, count)
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

func items(object map[string]any) []any {
	all := []any{}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		all = append(all, map[string]any{"key": name, "value": object[name]})
	}
	return all
}

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
	n, err := length(v)
	return err == nil && n == 0
}

func length(v any) (int, error) {
	switch v := v.(type) {
	case string:
		return len([]rune(v)), nil
	case []any:
		return len(v), nil
	case map[string]any:
		return len(v), nil
	}
	return 0, fmt.Errorf("%v has no length: use a string, a list or an object", v)
}

// joined joins lists to one list. If the first argument is not a list, ok is false.
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

func union(args ...any) (any, error) {
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
	return slices.ContainsFunc(list, func(x any) bool { return reflect.DeepEqual(x, v) })
}

func contains(v, part any) (bool, error) {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, textOf(part)), nil
	case []any:
		return has(v, part), nil
	case map[string]any:
		_, err := member(v, textOf(part))
		return err == nil, nil
	}
	return false, fmt.Errorf("cannot search in %v: use a string, a list or an object", v)
}

func numbers(first float64, count any) ([]any, error) {
	n, ok := whole(count, maxCopies)
	if !ok {
		return nil, fmt.Errorf("argument 2 is %v: it must be a whole number from 0 to %d", count, maxCopies)
	}
	all := make([]any, n)
	for i := range all {
		all[i] = first + float64(i)
	}
	return all, nil
}

func edge(v any, last bool) (any, error) {
	list, _ := v.([]any)
	if text, isText := v.(string); isText {
		for _, r := range text {
			list = append(list, string(r))
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the argument must be a list or a string that is not empty")
	}
	if last {
		return list[len(list)-1], nil
	}
	return list[0], nil
}
