package arm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

type scope struct {
	shared      *shared
	around      *scope // scope of the enclosing deployment, or nil
	deployed    any    // the template's resources: a list, or an object by symbolic name
	parameters  map[string]any
	definitions map[string]any
	given       map[string]any // values of parameters, by name in lower case
	variables   map[string]any
	functions   []any
	bound       map[string]any // arguments of the enclosing lambdas, by name in lower case
	loops       map[string]int // current index of each enclosing loop, by name in lower case; "" is the innermost loop
	nested      int
}

// lateError is a parameter that cannot be evaluated. It fails only if an expression uses it.
type lateError struct{ err error }

type shared struct {
	depth     int
	work      int
	open      map[string]bool // parameters and variables that are being evaluated
	unknown   []unknownText
	problems  []Problem
	resources []Resource
	reads     func(kind, property string) bool
}

func newScope(sh *shared, template, given map[string]any) *scope {
	s := &scope{shared: sh, deployed: template["resources"], given: given, loops: map[string]int{}}
	s.parameters, _ = template["parameters"].(map[string]any)
	s.definitions, _ = template["definitions"].(map[string]any)
	s.variables, _ = template["variables"].(map[string]any)
	s.functions, _ = template["functions"].([]any)
	return s
}

func (s *scope) declared(name string) (any, bool) {
	declared, err := member(s.parameters, name)
	if err != nil {
		s.problem("parameters", "the template has no parameter %s: it has %s", name, strings.Join(slices.Sorted(maps.Keys(s.parameters)), ", "))
	}
	return declared, err == nil
}

func (s *scope) giveOf(name string, of any) {
	if _, ok := s.declared(name); !ok {
		return
	}
	v, err := member(of, "value")
	if err != nil { // the parameters file may refer to a key vault instead of a value
		v = lateError{unknownf("the parameters file has no value for the parameter %s: set it with --parameter %[1]s=VALUE", name)}
	}
	if v != nil {
		s.given[strings.ToLower(name)] = v
	}
}

func (s *scope) give(name, text string) {
	declared, ok := s.declared(name)
	if !ok {
		return
	}
	var v any = text
	typ := s.typeOf(declared)
	if kind, _ := typ.(string); !strings.HasSuffix(strings.ToLower(kind), "string") {
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			s.problem("parameters."+name, "%q is not a value of the type %v: write it as JSON", text, typ)
		}
	}
	s.given[strings.ToLower(name)] = v
}

// typeOf returns the type of a declared parameter. It follows $ref to the definitions.
func (s *scope) typeOf(declared any) any {
	for range maxNested {
		reference, _ := member(declared, "$ref")
		path, _ := reference.(string)
		name, ok := strings.CutPrefix(path, "#/definitions/")
		if !ok {
			break
		}
		if declared, _ = member(s.definitions, name); declared == nil {
			break
		}
	}
	typ, _ := member(declared, "type")
	return typ
}

var errTooMuch = errors.New("the template's result is too large: reduce its loops, or import parts of it")

func (s *scope) spend(v any, err error) error {
	if s.shared.work += callWork; err == nil {
		s.shared.work += weight(v, maxWork-s.shared.work)
	}
	if err == nil && s.isSpent() {
		return errTooMuch
	}
	return err
}

// weight estimates the size of v. It stops when the estimate exceeds most.
func weight(v any, most int) (n int) {
	switch v := v.(type) {
	case string:
		return len(v)
	case []any:
		for i := 0; i < len(v) && n <= most; i++ {
			n += valueWork + weight(v[i], most-n)
		}
	case map[string]any:
		for name, x := range v {
			if n += valueWork + len(name) + weight(x, most-n); n > most {
				break
			}
		}
	}
	return n
}

func (s *scope) isSpent() bool { return s.shared.work > maxWork }

func (s *scope) problem(place, format string, args ...any) {
	s.shared.problems = append(s.shared.problems, Problem{place, fmt.Sprintf(format, args...)})
}

func (s *scope) parameter(name string) (any, error) {
	if v, ok := s.given[strings.ToLower(name)]; ok {
		if late, ok := v.(lateError); ok {
			return nil, late.err
		}
		return v, nil
	}
	declared, err := member(s.parameters, name)
	if err != nil {
		return nil, fmt.Errorf("the parameter %s does not exist", name)
	}
	deflt, err := member(declared, "defaultValue")
	if nullable, _ := member(declared, "nullable"); err != nil && nullable == true {
		return nil, nil
	}
	if err != nil {
		return nil, unknownf("the parameter %s has no default value: set it with --parameter %[1]s=VALUE", name)
	}
	v, err := s.enter("parameter "+name, func() (any, error) { return s.resolve(deflt) })
	if u, ok := errors.AsType[unevaluated](err); ok {
		return nil, unknownf("%s: set the parameter %s with --parameter %[2]s=VALUE", u.why, name)
	}
	return v, err
}

func (s *scope) variable(name string) (any, error) {
	return s.enter("variable "+name, func() (any, error) {
		if loop := s.loopOfVariable(name); loop != nil {
			return s.repeat(loop, "input")
		}
		v, err := member(s.variables, name)
		if err != nil {
			return nil, fmt.Errorf("the variable %s does not exist", name)
		}
		return s.resolve(v)
	})
}

func (s *scope) enter(what string, evaluate func() (any, error)) (any, error) {
	key := strings.ToLower(fmt.Sprint(s.nested, " ", what))
	if s.shared.open[key] {
		return nil, fmt.Errorf("the %s refers to itself", what)
	}
	s.shared.open[key] = true
	defer delete(s.shared.open, key)
	return evaluate()
}

func (s *scope) loopOfVariable(name string) map[string]any {
	loops, _ := s.variables["copy"].([]any)
	for _, v := range loops {
		loop, _ := v.(map[string]any)
		if of, _ := loop["name"].(string); strings.EqualFold(of, name) {
			return loop
		}
	}
	return nil
}

func loopsOf(object map[string]any) (all []map[string]any) {
	list, _ := object["copy"].([]any)
	for _, v := range list {
		loop, ok := v.(map[string]any)
		if _, named := loop["name"].(string); !ok || !named || loop["count"] == nil {
			return nil
		}
		all = append(all, loop)
	}
	return all
}

// repeat evaluates loop[of] once for each index of the loop, and returns all results.
func (s *scope) repeat(loop map[string]any, of string) (any, error) {
	name, count, err := s.loop(loop)
	if err != nil {
		return nil, err
	}
	all := []any{}
	for i := range count {
		v, err := s.within(name, i).resolve(loop[of])
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func (s *scope) loop(loop map[string]any) (name string, count int, err error) {
	name, _ = loop["name"].(string)
	v, err := s.resolve(loop["count"])
	if err != nil {
		return name, 0, err
	}
	n, ok := whole(v, maxCopies)
	if !ok {
		return name, 0, fmt.Errorf("the loop %s has the count %v: it must be a whole number from 0 to %d", name, v, maxCopies)
	}
	return name, n, nil
}

func (s *scope) within(loop string, i int) *scope {
	inner := *s
	inner.loops = maps.Clone(s.loops)
	inner.loops[""], inner.loops[strings.ToLower(loop)] = i, i
	return &inner
}

// resolve returns v with its expressions evaluated, or the first error.
func (s *scope) resolve(v any) (x any, err error) {
	x = s.evaluated(v, "", func(_, _ string, failed error) { err = cmp.Or(err, failed) })
	if err != nil {
		return nil, err
	}
	return x, nil
}

// evaluated returns v with its expressions evaluated. An expression or loop with an error becomes
// nil, and evaluated passes its text as what to fail.
func (s *scope) evaluated(v any, place string, fail func(place, what string, err error)) any {
	switch v := v.(type) {
	case string:
		if !strings.HasPrefix(v, "[") || !strings.HasSuffix(v, "]") {
			return v
		}
		if strings.HasPrefix(v, "[[") {
			return v[1:]
		}
		x, err := s.evaluate(v[1 : len(v)-1])
		if err != nil {
			fail(place, v, err)
		}
		return x
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = s.evaluated(v[i], place+"["+strconv.Itoa(i)+"]", fail)
		}
		return all
	case map[string]any:
		return s.members(v, place, func(string) bool { return true }, fail)
	}
	return v
}

// members returns the object v. It evaluates the members for which reads returns true.
func (s *scope) members(v map[string]any, place string, reads func(name string) bool, fail func(place, what string, err error)) map[string]any {
	all, loops := make(map[string]any, len(v)), loopsOf(v)
	for i, loop := range loops {
		name, _ := loop["name"].(string)
		if all[name] = loop; !reads(name) {
			continue
		}
		list, err := s.repeat(loop, "input")
		if err != nil {
			fail(fmt.Sprintf("%s.copy[%d]", place, i), "the loop of "+name, err)
		}
		all[name] = list
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		switch {
		case name == "copy" && loops != nil:
		case reads(name):
			all[name] = s.evaluated(v[name], place+"."+name, fail)
		default:
			all[name] = v[name]
		}
	}
	return all
}
