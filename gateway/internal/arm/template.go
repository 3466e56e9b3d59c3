// Package arm reads the resources in an ARM template, which is the JSON that Bicep compiles to. It
// evaluates the names and properties of resources, except expressions that only Azure can evaluate.
package arm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Resource is a resource that a template deploys. Types and Names begin with those of the enclosing
// resources, such as ["Microsoft.ServiceBus/namespaces", "queues"] and ["ns", "orders"]. For a
// resource that does not belong to Service Bus, only Path and Types are set.
type Resource struct {
	Path       string // place in the template, such as resources[2]
	Types      []string
	Names      []string
	Properties map[string]any
	Other      map[string]any // other members of the resource, such as sku
}

type Problem struct{ Path, Text string }

const (
	maxCopies = 10_000
	maxNested = 20
	// maxDepth bounds how deeply expressions are nested, also by the variables that they refer to.
	maxDepth = 1000
	// maxWork limits the work of evaluating a template. Each byte of a string is a unit of work. An
	// element, call or resource has a fixed number of units. Azure's 800 resources need far less.
	maxWork      = 32 << 20
	valueWork    = 16
	callWork     = 64
	resourceWork = 1 << 10
)

// unknownText is a part of a name that cannot be evaluated. The name contains the index of the
// unknownText between two zero bytes. A namespace's name, for example, may be partly unknown.
type unknownText struct{ expression, why string }

type Options struct {
	File  map[string]any    // the member "parameters" of a parameters file: each value is an object {"value": …}
	Given map[string]string // values of parameters as strings; they override those in File
	// Reads reports whether Read must evaluate a property of resources of a kind, such as
	// topics/subscriptions. The kind of a namespace is "". With the property "", Reads reports
	// whether Read must read resources of the kind at all.
	Reads func(kind, property string) bool
}

func Read(template map[string]any, o Options) ([]Resource, []Problem) {
	s := newScope(&shared{open: map[string]bool{}, reads: o.Reads}, template, map[string]any{})
	for name, v := range o.File {
		s.giveOf(name, v)
	}
	for name, text := range o.Given {
		s.give(name, text)
	}
	if s.resources(s.deployed, "", nil, nil); s.isSpent() {
		return nil, s.shared.problems
	}
	return s.shared.resources, s.shared.problems
}

// resources reads the resources in v, which is a list, or an object by symbolic name.
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

func (s *scope) each(v any, place string, types, names []string) {
	r, ok := v.(map[string]any)
	if !ok {
		s.problem(place, "the value is not a resource: write an object")
		return
	}
	typ, _ := r["type"].(string)
	if typ == "" {
		s.problem(place+".type", "the resource has no type: add the member type")
		return
	}
	full, relative := fullType(typ, types)
	if !strings.EqualFold(typ, deployments) && (!strings.EqualFold(full[0], ServiceBus) || !s.shared.reads(kindOf(full), "")) {
		s.shared.resources = append(s.shared.resources, Resource{Path: place, Types: full})
		return
	}
	if types = full; !relative {
		names = nil
	}
	loop, ok := r["copy"].(map[string]any)
	if !ok {
		s.resource(r, place, types, names)
		return
	}
	name, count, err := s.loop(loop)
	if err != nil && !concernsBus(r) {
		s.shared.resources = append(s.shared.resources, Resource{Path: place, Types: full})
		return
	}
	if err != nil {
		s.problem(place+".copy", "%v cannot be evaluated: %v", loop["count"], err)
		return
	}
	for i := range count {
		if s.within(name, i).resource(r, place, types, names); s.isSpent() {
			return
		}
	}
}

// fullType splits a type at slashes. around is the type of the enclosing resource. If typ is
// relative to it, relative is true and all begins with around.
func fullType(typ string, around []string) (all []string, relative bool) {
	all = strings.Split(typ, "/")
	if len(around) > 0 && !strings.Contains(all[0], ".") {
		return slices.Concat(around, all), true
	}
	if len(all) > 1 {
		all = append([]string{all[0] + "/" + all[1]}, all[2:]...)
	}
	return all, false
}

func kindOf(types []string) string { return strings.ToLower(strings.Join(types[1:], "/")) }

func (r *Resource) Kind() string { return kindOf(r.Types) }

func (s *scope) resource(r map[string]any, place string, types, names []string) {
	if existing, _ := r["existing"].(bool); existing {
		return
	}
	if condition, ok := r["condition"]; ok {
		wanted, err := s.resolve(condition)
		if err != nil && !concernsBus(r) {
			s.shared.resources = append(s.shared.resources, Resource{Path: place, Types: types})
			return
		}
		if err != nil {
			s.problem(place+".condition", "%v cannot be evaluated: %v", condition, err)
			return
		}
		if strings.EqualFold(fmt.Sprint(wanted), "false") {
			return
		}
	}
	if typ, _ := r["type"].(string); strings.EqualFold(typ, deployments) {
		s.deployment(r, place)
		return
	}
	if s.shared.work += resourceWork; s.isSpent() {
		s.problem(place, "%v", errTooMuch)
		return
	}
	name, ok := s.name(r["name"], place)
	if !ok {
		return
	}
	names = slices.Concat(names, strings.Split(name, "/"))
	if len(names) != len(types) {
		if !s.isKnown(name, r["name"], place) {
			return
		}
		s.problem(place+".name", "%q has %d parts, but the name of a resource of the type %s must have %d, separated by slashes", name, len(names), strings.Join(types, "/"), len(types))
		return
	}
	for i := 1; i < len(names); i++ { // the namespace's name may be unknown
		if !s.isKnown(names[i], r["name"], place) {
			return
		}
	}
	found := Resource{Path: place, Types: types, Names: names, Other: map[string]any{}}
	if found.Properties, _ = r["properties"].(map[string]any); found.Properties != nil {
		found.Properties = s.members(found.Properties, place+".properties", func(property string) bool { return s.shared.reads(kindOf(types), property) }, func(place, what string, err error) {
			s.problem(place, "%s cannot be evaluated: %v", what, err)
		})
		maps.DeleteFunc(found.Properties, func(_ string, v any) bool { return v == nil })
	}
	for member, v := range r {
		if !slices.Contains([]string{"type", "apiVersion", "name", "location", "dependsOn", "condition", "copy", "comments", "resources", "properties", "scope", "metadata"}, member) {
			found.Other[member] = v
		}
	}
	s.shared.resources = append(s.shared.resources, found)
	s.resources(r["resources"], place+".", types, names)
}

// concernsBus reports whether r is a Service Bus resource, or a deployment that may contain one.
func concernsBus(r map[string]any) bool {
	typ, _ := r["type"].(string)
	if !strings.EqualFold(typ, deployments) {
		return strings.HasPrefix(strings.ToLower(typ), strings.ToLower(ServiceBus))
	}
	properties, _ := r["properties"].(map[string]any)
	template, linked := member(properties["template"], "resources")
	all, _ := template.([]any)
	if symbolic, ok := template.(map[string]any); ok {
		all = slices.Collect(maps.Values(symbolic))
	}
	return linked != nil || slices.ContainsFunc(all, func(v any) bool {
		inner, _ := v.(map[string]any)
		return concernsBus(inner)
	})
}

const ServiceBus = "Microsoft.ServiceBus/namespaces"

// deployments is the type of nested deployments, such as modules of Bicep.
const deployments = "Microsoft.Resources/deployments"

// name evaluates the name of a resource. The name may contain marks: see unknownText.
func (s *scope) name(v any, place string) (string, bool) {
	text, ok := v.(string)
	if !ok {
		s.problem(place+".name", "the resource has no name: add the member name")
		return "", false
	}
	x, err := s.resolve(text)
	if _, ok := errors.AsType[unevaluated](err); ok {
		n, _ := parse(text[1 : len(text)-1]) // no error: resolve has parsed it
		x, err = s.marked(n)
	}
	name, isText := x.(string)
	if err != nil || !isText {
		s.problem(place+".name", "%s cannot be evaluated: %v", text, err)
		return "", false
	}
	return name, true
}

// marked evaluates a name with unknown parts. In a concat or format, only the unknown arguments
// become marks (see unknownText). Otherwise the whole name becomes one mark.
func (s *scope) marked(n *node) (any, error) {
	switch {
	case len(n.path) > 0:
	case n.function == "variables" && len(n.args) == 1:
		name, _ := n.args[0].value.(string)
		v, _ := member(s.variables, name)
		if written, ok := v.(string); ok && strings.HasPrefix(written, "[") {
			inner, err := parse(strings.TrimSuffix(written[1:], "]"))
			if err != nil {
				return nil, err
			}
			return s.enter("variable "+name, func() (any, error) { return s.marked(inner) })
		}
	case n.function == "concat" || n.function == "format":
		args := make([]any, len(n.args))
		for i, arg := range n.args {
			v, err := s.known(arg)
			if _, ok := errors.AsType[unevaluated](err); ok {
				v, err = s.marked(arg)
			}
			if err != nil {
				return nil, err
			}
			args[i] = v
		}
		return call(functions[n.function], args)
	}
	why := "the expression has no value"
	if _, err := s.known(n); err != nil {
		why = err.Error()
	}
	s.shared.unknown = append(s.shared.unknown, unknownText{n.text, why})
	return "\x00" + strconv.Itoa(len(s.shared.unknown)-1) + "\x00", nil
}

// isKnown reports whether all of name is known. If not, it adds a problem with the unknown part.
func (s *scope) isKnown(name string, written any, place string) bool {
	_, rest, ok := strings.Cut(name, "\x00")
	if !ok {
		return true
	}
	number, _, _ := strings.Cut(rest, "\x00")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= len(s.shared.unknown) {
		s.problem(place+".name", "%q contains a zero byte: remove this byte", name)
		return false
	}
	u := s.shared.unknown[n]
	s.problem(place+".name", "%v cannot be evaluated: %s: %s", written, u.expression, u.why)
	return false
}

func (s *scope) deployment(r map[string]any, place string) {
	properties, _ := r["properties"].(map[string]any)
	template, ok := properties["template"].(map[string]any)
	if !ok {
		s.problem(place+".properties", "the deployment refers to a linked template, which cannot be read: compile the linked template into this template, or import it separately")
		return
	}
	if s.nested >= maxNested {
		s.problem(place, "deployments are nested deeper than %d levels: move inner deployments outward", maxNested)
		return
	}
	s.inside(properties, template).resources(template["resources"], place+".properties.template.", nil, nil)
}

func (s *scope) inside(properties, template map[string]any) *scope {
	inner := *s
	if options, _ := properties["expressionEvaluationOptions"].(map[string]any); strings.EqualFold(fmt.Sprint(options["scope"]), "inner") {
		inner = *newScope(s.shared, template, s.arguments(properties["parameters"]))
		inner.around = s
	}
	inner.nested = s.nested + 1
	return &inner
}

// arguments evaluates the arguments of a deployment. It omits null, which means the default value.
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
			if x != nil {
				all[strings.ToLower(name)] = x
			}
		}
	}
	return all
}
