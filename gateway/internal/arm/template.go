// Package arm reads the resources of an ARM template, the JSON that Bicep compiles to, as far as their
// names and properties do not depend on Azure.
package arm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Resource is a resource that a template deploys. Types and names are those of the resource and of
// those around it, from the outermost: ["Microsoft.ServiceBus/namespaces", "queues"] and ["ns", "orders"].
type Resource struct {
	Path       string // in the template, such as resources[2]
	Types      []string
	Names      []string
	Properties map[string]any
	Other      map[string]any // further members, such as sku
}

// Problem is what is wrong at a place in a template.
type Problem struct{ Path, Text string }

const (
	// maxCopies bounds how often a loop makes a resource.
	maxCopies = 10_000
	// maxNested bounds how deeply deployments are nested.
	maxNested = 20
)

// scope is what an expression can refer to.
type scope struct {
	shared     *shared
	parameters map[string]any // of the template, with type and defaultValue
	given      map[string]any // values of parameters
	variables  map[string]any
	loops      map[string]int // by name, lower-cased; "" is the innermost
	nested     int
}

// shared is what all scopes of a template have in common.
type shared struct {
	open      map[string]bool // parameters and variables that are being evaluated
	unknown   []unknownText
	problems  []Problem
	resources []Resource
}

// unknownText is an expression without a value. In a text its number between two zero bytes stands for
// it: the name of a namespace may have no value without any harm.
type unknownText struct{ expression, why string }

// Read lists the resources of a template. given are values of its parameters.
func Read(template map[string]any, given map[string]string) ([]Resource, []Problem) {
	s := newScope(&shared{open: map[string]bool{}}, template, map[string]any{})
	for name, text := range given {
		s.give(name, text)
	}
	s.template(template, "")
	return s.shared.resources, s.shared.problems
}

func newScope(sh *shared, template, given map[string]any) *scope {
	s := &scope{shared: sh, given: given, loops: map[string]int{}}
	s.parameters, _ = template["parameters"].(map[string]any)
	s.variables, _ = template["variables"].(map[string]any)
	return s
}

// give sets a parameter from a text, by the parameter's type.
func (s *scope) give(name, text string) {
	declared, err := member(s.parameters, name)
	if err != nil {
		s.problem("parameters", "the template has no parameter %s: it has %s", name, strings.Join(slices.Sorted(maps.Keys(s.parameters)), ", "))
		return
	}
	var v any = text
	typ, _ := member(declared, "type")
	if kind, _ := typ.(string); !strings.HasSuffix(strings.ToLower(kind), "string") {
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			s.problem("parameters."+name, "%q is no value of the type %v: write it as JSON", text, typ)
		}
	}
	s.given[strings.ToLower(name)] = v
}

func (s *scope) problem(place, format string, args ...any) {
	s.shared.problems = append(s.shared.problems, Problem{place, fmt.Sprintf(format, args...)})
}

// parameter is the value of a parameter.
func (s *scope) parameter(name string) (any, error) {
	if v, ok := s.given[strings.ToLower(name)]; ok {
		if late, ok := v.(lateError); ok {
			return nil, late.err
		}
		return v, nil
	}
	declared, err := member(s.parameters, name)
	if err != nil {
		return nil, fmt.Errorf("there is no parameter %s", name)
	}
	deflt, err := member(declared, "defaultValue")
	if err != nil {
		return nil, unknownf("the parameter %s has no default value: give it with --parameter %[1]s=VALUE", name)
	}
	v, err := s.enter("parameter "+name, func() (any, error) { return s.resolve(deflt) })
	if u, ok := errors.AsType[unevaluated](err); ok {
		return nil, unknownf("%s: give the parameter %s with --parameter %[2]s=VALUE", u.why, name)
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
			return nil, fmt.Errorf("there is no variable %s", name)
		}
		return s.resolve(v)
	})
}

// enter evaluates a parameter or variable, unless that is under way: then it refers to itself.
func (s *scope) enter(what string, evaluate func() (any, error)) (any, error) {
	key := strings.ToLower(fmt.Sprint(s.nested, " ", what))
	if s.shared.open[key] {
		return nil, fmt.Errorf("the %s refers to itself", what)
	}
	s.shared.open[key] = true
	defer delete(s.shared.open, key)
	return evaluate()
}

// loopOfVariable is the loop that makes a variable, which is a list then.
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

// repeat is the list that a loop makes of one of its members.
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
	n, ok := v.(float64)
	if !ok || n < 0 || n > maxCopies {
		return name, 0, fmt.Errorf("the loop %s has the count %v: it must be 0 to %d", name, v, maxCopies)
	}
	return name, int(n), nil
}

// within is the scope of one round of a loop.
func (s *scope) within(loop string, i int) *scope {
	inner := *s
	inner.loops = maps.Clone(s.loops)
	inner.loops[""], inner.loops[strings.ToLower(loop)] = i, i
	return &inner
}

// resolve is a value without expressions. The error, if any, is that of the first.
func (s *scope) resolve(v any) (any, error) {
	switch v := v.(type) {
	case string:
		if !strings.HasPrefix(v, "[") || !strings.HasSuffix(v, "]") {
			return v, nil
		}
		if strings.HasPrefix(v, "[[") {
			return v[1:], nil
		}
		return s.evaluate(v[1 : len(v)-1])
	case []any:
		all := make([]any, len(v))
		for i := range v {
			var err error
			if all[i], err = s.resolve(v[i]); err != nil {
				return nil, err
			}
		}
		return all, nil
	case map[string]any:
		all := make(map[string]any, len(v))
		for name := range v {
			var err error
			if all[name], err = s.resolve(v[name]); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return v, nil
}

// settled resolves the value at a place and reports the expressions in it that have none; what holds
// one is left out.
func (s *scope) settled(v any, place string) any {
	switch v := v.(type) {
	case map[string]any:
		all := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if x := s.settled(v[name], place+"."+name); x != nil {
				all[name] = x
			}
		}
		return all
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = s.settled(v[i], place+"["+strconv.Itoa(i)+"]")
		}
		return all
	case string:
		x, err := s.resolve(v)
		if err != nil {
			s.problem(place, "%s cannot be evaluated: %v", v, err)
		}
		return x
	}
	return v
}

// template adds the resources of a template.
func (s *scope) template(template map[string]any, place string) {
	s.resources(template["resources"], place, nil, nil)
}

// resources adds a list of resources, or those of an object by symbolic name.
func (s *scope) resources(v any, place string, types, names []string) {
	switch v := v.(type) {
	case []any:
		for i := range v {
			s.each(v[i], fmt.Sprintf("%sresources[%d]", place, i), types, names)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			s.each(v[name], place+"resources."+name, types, names)
		}
	}
}

// each adds a resource, as often as its loop says.
func (s *scope) each(v any, place string, types, names []string) {
	r, ok := v.(map[string]any)
	if !ok {
		s.problem(place, "it is no resource: write an object")
		return
	}
	loop, ok := r["copy"].(map[string]any)
	if !ok {
		s.resource(r, place, types, names)
		return
	}
	name, count, err := s.loop(loop)
	if err != nil {
		s.problem(place+".copy", "%v cannot be evaluated: %v", loop["count"], err)
		return
	}
	for i := range count {
		s.within(name, i).resource(r, place, types, names)
	}
}

func (s *scope) resource(r map[string]any, place string, types, names []string) {
	if existing, _ := r["existing"].(bool); existing {
		return
	}
	if condition, ok := r["condition"]; ok {
		wanted, err := s.resolve(condition)
		if err != nil {
			s.problem(place+".condition", "%v cannot be evaluated: %v", condition, err)
			return
		}
		if wanted == false {
			return
		}
	}
	typ, _ := r["type"].(string)
	if strings.EqualFold(typ, "Microsoft.Resources/deployments") {
		s.deployment(r, place)
		return
	}
	name, ok := s.name(r["name"], place)
	if !ok {
		return
	}
	segments := strings.Split(typ, "/")
	if len(types) == 0 || strings.Contains(segments[0], ".") { // it is not relative to the resource around it
		types, names = nil, nil
		if len(segments) > 1 {
			segments = append([]string{segments[0] + "/" + segments[1]}, segments[2:]...)
		}
	}
	types, names = slices.Concat(types, segments), slices.Concat(names, strings.Split(name, "/"))
	if len(names) != len(types) {
		s.problem(place+".name", "%q has %d parts, and a resource of the type %s has %d: separate them by slashes", name, len(names), strings.Join(types, "/"), len(types))
		return
	}
	for i := 1; i < len(names); i++ { // the outermost is not looked at
		if !s.known(names[i], r["name"], place) {
			return
		}
	}
	found := Resource{Path: place, Types: types, Names: names, Other: map[string]any{}}
	if strings.EqualFold(types[0], ServiceBus) {
		found.Properties, _ = s.settled(r["properties"], place+".properties").(map[string]any)
	}
	for member, v := range r {
		if !slices.Contains([]string{"type", "apiVersion", "name", "location", "dependsOn", "condition", "copy", "comments", "resources", "properties", "scope", "metadata"}, member) {
			found.Other[member] = v
		}
	}
	s.shared.resources = append(s.shared.resources, found)
	s.resources(r["resources"], place+".", types, names)
}

// ServiceBus is the type of a namespace of Service Bus.
const ServiceBus = "Microsoft.ServiceBus/namespaces"

// name is a resource's name, in which expressions without a value are marked.
func (s *scope) name(v any, place string) (string, bool) {
	text, ok := v.(string)
	if !ok {
		s.problem(place+".name", "it is missing: write the name of the resource")
		return "", false
	}
	x, err := s.resolve(text)
	if _, ok := errors.AsType[unevaluated](err); ok {
		x, err = s.marked(text)
	}
	name, isText := x.(string)
	if err != nil || !isText {
		s.problem(place+".name", "%s cannot be evaluated: %v", text, err)
		return "", false
	}
	return name, true
}

// marked evaluates concat and format of a name where some of the arguments have no value: those become
// marks.
func (s *scope) marked(text string) (any, error) {
	p := &parser{text: text[1 : len(text)-1], in: s}
	function := strings.ToLower(p.word())
	if (function != "concat" && function != "format") || !p.takes('(') {
		return s.mark(text)
	}
	var args []any
	for !p.takes(')') {
		if len(args) > 0 && !p.takes(',') {
			return nil, errors.New("a , or ) is missing")
		}
		p.space()
		from := p.at
		v, err := p.expression()
		if _, ok := errors.AsType[unevaluated](err); ok {
			if p.at = from; !p.skip() {
				return nil, err
			}
			v, err = s.marked("[" + p.text[from:p.at] + "]")
		}
		if err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	return functions[function](args)
}

func (s *scope) mark(text string) (any, error) {
	_, err := s.resolve(text)
	why := "it has no value"
	if err != nil {
		why = err.Error()
	}
	s.shared.unknown = append(s.shared.unknown, unknownText{text, why})
	return "\x00" + strconv.Itoa(len(s.shared.unknown)-1) + "\x00", nil
}

// known reports the expression in a name that has no value.
func (s *scope) known(name string, written any, place string) bool {
	_, rest, ok := strings.Cut(name, "\x00")
	if !ok {
		return true
	}
	number, _, _ := strings.Cut(rest, "\x00")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= len(s.shared.unknown) {
		s.problem(place+".name", "%q holds a zero byte: leave it out", name)
		return false
	}
	u := s.shared.unknown[n]
	s.problem(place+".name", "%v cannot be evaluated: %s: %s", written, strings.Trim(u.expression, "[]"), u.why)
	return false
}

// deployment adds the resources of a nested deployment, such as a module of Bicep.
func (s *scope) deployment(r map[string]any, place string) {
	properties, _ := r["properties"].(map[string]any)
	template, ok := properties["template"].(map[string]any)
	if !ok {
		s.problem(place+".properties", "a linked template is not read: compile it into this one, or import it by itself")
		return
	}
	if s.nested >= maxNested {
		s.problem(place, "deployments are nested too deeply")
		return
	}
	inner := *s
	if options, _ := properties["expressionEvaluationOptions"].(map[string]any); strings.EqualFold(fmt.Sprint(options["scope"]), "inner") {
		inner = *newScope(s.shared, template, s.arguments(properties["parameters"]))
	}
	inner.nested = s.nested + 1
	inner.template(template, place+".properties.template.")
}

// arguments are the parameters of a nested deployment. Those without a value matter only where they are
// used.
func (s *scope) arguments(v any) map[string]any {
	all := map[string]any{}
	parameters, _ := v.(map[string]any)
	for name, p := range parameters {
		argument, _ := p.(map[string]any)
		if value, ok := argument["value"]; ok {
			x, err := s.resolve(value)
			if err != nil {
				x = lateError{err}
			}
			all[strings.ToLower(name)] = x
		}
	}
	return all
}
