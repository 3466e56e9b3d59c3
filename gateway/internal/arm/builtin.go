package arm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// functions are the functions whose value depends only on their arguments.
var functions map[string]func(args []any) (any, error)

func init() { // a function, because some functions call each other
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
			return reflect.DeepEqual(args[0], args[1]), nil
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
		"trim":     onText(strings.TrimSpace),
		"empty":    func(args []any) (any, error) { return isEmpty(args[0]), nil },
		"contains": contains,
		"int": func(args []any) (any, error) {
			n, err := strconv.ParseInt(textOf(args[0]), 10, 64)
			return float64(n), err
		},
		"bool":            func(args []any) (any, error) { return strconv.ParseBool(strings.ToLower(textOf(args[0]))) },
		"add":             arithmetic(func(a, b float64) any { return a + b }),
		"sub":             arithmetic(func(a, b float64) any { return a - b }),
		"mul":             arithmetic(func(a, b float64) any { return a * b }),
		"div":             quotient(func(a, b float64) float64 { return math.Trunc(a / b) }),
		"mod":             quotient(math.Mod),
		"less":            order(func(n int) bool { return n < 0 }),
		"lessorequals":    order(func(n int) bool { return n <= 0 }),
		"greater":         order(func(n int) bool { return n > 0 }),
		"greaterorequals": order(func(n int) bool { return n >= 0 }),
		"min":             extreme(func(a, b float64) float64 { return min(a, b) }),
		"max":             extreme(func(a, b float64) float64 { return max(a, b) }),
		"indexof":         onTexts(func(a, b string) any { return float64(strings.Index(a, b)) }),
		"lastindexof":     onTexts(func(a, b string) any { return float64(strings.LastIndex(a, b)) }),
		"padleft":         padLeft,
		"take":            func(args []any) (any, error) { return part(args, true) },
		"skip":            func(args []any) (any, error) { return part(args, false) },
		"flatten": func(args []any) (any, error) {
			list, err := argument[[]any](args, 0)
			if err != nil {
				return nil, err
			}
			return concat(list)
		},
		"items": items,
		"objectkeys": func(args []any) (any, error) {
			all, err := items(args)
			if err != nil {
				return nil, err
			}
			for i := range all.([]any) {
				all.([]any)[i] = all.([]any)[i].(map[string]any)["key"]
			}
			return all, nil
		},
		"map": func(args []any) (any, error) {
			all := []any{}
			err := eachOf(args, func(_, made any) error { all = append(all, made); return nil })
			return all, err
		},
		"filter": func(args []any) (any, error) {
			all := []any{}
			err := eachOf(args, func(v, made any) error {
				if made == true {
					all = append(all, v)
				}
				return nil
			})
			return all, err
		},
		"first":      func(args []any) (any, error) { return edge(args, false) },
		"last":       func(args []any) (any, error) { return edge(args, true) },
		"replace":    replace,
		"split":      split,
		"join":       join,
		"substring":  substring,
		"startswith": onTexts(func(a, b string) any { return strings.HasPrefix(a, b) }),
		"endswith":   onTexts(func(a, b string) any { return strings.HasSuffix(a, b) }),
	}
	for name, f := range functions {
		least := map[string]int{
			"string": 1, "array": 1, "equals": 2, "empty": 1, "contains": 2, "int": 1, "bool": 1, "startswith": 2, "endswith": 2, "length": 1, "if": 3,
			"less": 2, "lessorequals": 2, "greater": 2, "greaterorequals": 2, "min": 1, "max": 1, "indexof": 2, "lastindexof": 2, "padleft": 2, "take": 2, "skip": 2,
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

// logic returns the function or if short is true, and otherwise the function and.
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

// quotient divides whole numbers.
func quotient(f func(a, b float64) float64) func([]any) (any, error) {
	return func(args []any) (any, error) {
		if b, err := argument[float64](args, 1); err == nil && b == 0 {
			return nil, errors.New("division by zero")
		}
		return arithmetic(func(a, b float64) any { return f(a, b) })(args)
	}
}

// order compares numbers, or texts.
func order(is func(n int) bool) func([]any) (any, error) {
	return func(args []any) (any, error) {
		if a, ok := args[0].(string); ok {
			b, err := argument[string](args, 1)
			return is(strings.Compare(a, b)), err
		}
		return arithmetic(func(a, b float64) any { return is(cmp.Compare(a, b)) })(args)
	}
}

// extreme returns the smallest or the largest of its arguments, or of a list of numbers.
func extreme(of func(a, b float64) float64) func([]any) (any, error) {
	return func(args []any) (any, error) {
		if list, ok := args[0].([]any); ok {
			args = list
		}
		best, err := argument[float64](args, 0)
		for i := range args {
			var n float64
			if n, err = argument[float64](args, i); err != nil {
				break
			}
			best = of(best, n)
		}
		return best, err
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
