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

var functions map[string]any

func init() { // an initializer of functions would refer to itself, because some functions use the map
	functions = map[string]any{
		"if":     func(_ bool, _, _ any) any { return nil }, // scope.call evaluates valid calls
		"concat": concat, "format": format, "length": length, "union": union, "range": numbers,
		"true": func() bool { return true }, "false": func() bool { return false }, "null": func() any { return nil },
		"string":      textOf,
		"createarray": func(args ...any) []any { return append([]any{}, args...) },
		"array": func(v any) []any {
			if list, ok := v.([]any); ok {
				return list
			}
			return []any{v}
		},
		"createobject": func(args ...any) map[string]any {
			all := map[string]any{}
			for i := 0; i+1 < len(args); i += 2 {
				all[textOf(args[i])] = args[i+1]
			}
			return all
		},
		"equals":  reflect.DeepEqual,
		"not":     func(v bool) bool { return !v },
		"and":     logic(false),
		"or":      logic(true),
		"tolower": strings.ToLower,
		"toupper": strings.ToUpper,
		"json":    func(text string) (v any, err error) { err = json.Unmarshal([]byte(text), &v); return v, err },
		"tryget": func(v any, names ...any) any {
			for _, name := range names {
				var err error
				if v, err = element(v, name); err != nil {
					return nil
				}
			}
			return v
		},
		"trim":            strings.TrimSpace,
		"empty":           isEmpty,
		"contains":        contains,
		"int":             func(v text) (int64, error) { return strconv.ParseInt(string(v), 10, 64) },
		"bool":            func(v text) (bool, error) { return strconv.ParseBool(strings.ToLower(string(v))) },
		"add":             func(a, b float64) float64 { return a + b },
		"sub":             func(a, b float64) float64 { return a - b },
		"mul":             func(a, b float64) float64 { return a * b },
		"div":             quotient(func(a, b float64) float64 { return math.Trunc(a / b) }),
		"mod":             quotient(math.Mod),
		"less":            order(func(n int) bool { return n < 0 }),
		"lessorequals":    order(func(n int) bool { return n <= 0 }),
		"greater":         order(func(n int) bool { return n > 0 }),
		"greaterorequals": order(func(n int) bool { return n >= 0 }),
		"min":             extreme(math.Min),
		"max":             extreme(math.Max),
		"indexof":         onTexts(strings.Index),
		"lastindexof":     onTexts(strings.LastIndex),
		"padleft":         padLeft,
		"take":            func(v, n any) (any, error) { return part(v, n, true) },
		"skip":            func(v, n any) (any, error) { return part(v, n, false) },
		"flatten":         func(list []any) (any, error) { return concat(list...) },
		"items":           items,
		"objectkeys": func(object map[string]any) []any {
			all := items(object)
			for i := range all {
				all[i] = all[i].(map[string]any)["key"]
			}
			return all
		},
		"map": func(list []any, l lambda) ([]any, error) {
			all := []any{}
			err := l.each(list, func(_, made any) { all = append(all, made) })
			return all, err
		},
		"filter": func(list []any, l lambda) ([]any, error) {
			all := []any{}
			err := l.each(list, func(v, made any) {
				if made == true {
					all = append(all, v)
				}
			})
			return all, err
		},
		"first":      func(v any) (any, error) { return edge(v, false) },
		"last":       func(v any) (any, error) { return edge(v, true) },
		"replace":    replace,
		"split":      split,
		"join":       join,
		"substring":  substring,
		"startswith": onTexts(strings.HasPrefix),
		"endswith":   onTexts(strings.HasSuffix),
	}
}

// call converts an argument of any type to text, as the template function concat does.
type text string

// call calls the Go function f. It ignores surplus arguments, and returns an int as a float64.
func call(f any, args []any) (any, error) {
	function := reflect.ValueOf(f)
	t := function.Type()
	least := t.NumIn()
	if t.IsVariadic() {
		least--
	} else {
		args = args[:min(least, len(args))]
	}
	if len(args) < least {
		return nil, fmt.Errorf("the function requires at least %d arguments, but got %d", least, len(args))
	}
	in := make([]reflect.Value, len(args))
	for i, a := range args {
		want := t.In(min(i, t.NumIn()-1))
		if i >= least {
			want = want.Elem()
		}
		if want == reflect.TypeFor[text]() {
			a = text(textOf(a))
		}
		in[i] = reflect.New(want).Elem()
		if v := reflect.ValueOf(a); v.IsValid() && v.Type().AssignableTo(want) {
			in[i].Set(v)
		} else if a != nil || want.Kind() != reflect.Interface {
			return nil, wrongArgument(i, a, want)
		}
	}
	out := function.Call(in)
	v := out[0].Interface()
	if out[0].CanInt() {
		v = float64(out[0].Int())
	}
	if len(out) > 1 && !out[1].IsNil() {
		return nil, out[1].Interface().(error)
	}
	return v, nil
}

var typeNames = map[reflect.Kind]string{
	reflect.Bool: "a boolean", reflect.Float64: "a number", reflect.String: "a string",
	reflect.Slice: "an array", reflect.Map: "an object", reflect.Struct: "a lambda",
}

func wrongArgument(i int, v any, want reflect.Type) error {
	text, _ := json.Marshal(v) // no error: v was decoded from JSON
	return fmt.Errorf("argument %d is %s: use %s", i+1, text, typeNames[want.Kind()])
}

// logic returns the template function "or" if short is true, otherwise the function "and". The
// returned function stops at the first argument that equals short.
func logic(short bool) func(args ...any) (any, error) {
	return func(args ...any) (any, error) {
		for i := range args {
			if v, err := argument[bool](args, i); err != nil || v == short {
				return v, err
			}
		}
		return !short, nil
	}
}

func quotient(f func(a, b float64) float64) func(a, b float64) (float64, error) {
	return func(a, b float64) (float64, error) {
		if b == 0 {
			return 0, errors.New("division by zero")
		}
		return f(a, b), nil
	}
}

// order returns a function that compares two numbers or two strings. It passes the result of the
// comparison (-1, 0 or 1) to holds.
func order(holds func(n int) bool) func(a, b any) (any, error) {
	return func(a, b any) (any, error) {
		if _, ok := a.(string); ok {
			return call(func(a, b string) bool { return holds(strings.Compare(a, b)) }, []any{a, b})
		}
		return call(func(a, b float64) bool { return holds(cmp.Compare(a, b)) }, []any{a, b})
	}
}

// extreme returns the template function min or max. Its arguments are numbers, or one list.
func extreme(of func(a, b float64) float64) func(first any, rest ...any) (float64, error) {
	return func(first any, rest ...any) (float64, error) {
		args, ok := first.([]any)
		if !ok {
			args = append([]any{first}, rest...)
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
