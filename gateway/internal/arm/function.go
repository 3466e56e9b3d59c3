package arm

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// ofAzure lists functions that only Azure can evaluate. function adds names that begin with list.
var ofAzure = []string{
	"deployer", "deployment", "environment", "getsecret", "guid", "managementgroup", "managementgroupresourceid", "newguid",
	"pickzones", "providers", "references", "resourcegroup", "subscription", "tenant",
	"uniquestring", "utcnow",
}

func (s *scope) function(name string, args []any) (v any, err error) {
	if f := s.special(name); f != nil {
		v, err = call(f, args)
		return v, s.spend(v, err)
	}
	f, ok := functions[name]
	switch {
	case ok:
	case strings.HasPrefix(name, "list") || slices.Contains(ofAzure, name):
		return nil, unknownf("%s(…) can only be evaluated by Azure", name)
	case strings.Contains(name, "."):
		if f = s.own(name); f == nil {
			return nil, fmt.Errorf("the template does not define the function %s", name)
		}
	default:
		return nil, unknownf("this version does not know the function %s", name)
	}
	if v, err = call(f, args); err != nil {
		return nil, fmt.Errorf("%s(…): %w", name, err)
	}
	return v, s.spend(v, nil)
}

func (s *scope) special(name string) any {
	switch name {
	case "parameters":
		return s.parameter
	case "variables":
		return s.variable
	case "lambdavariables":
		return s.lambdaVariable
	case "copyindex":
		return s.copyIndex
	case "reference":
		return s.reference
	case "resourceid", "subscriptionresourceid", "tenantresourceid", "extensionresourceid":
		return resourceID
	}
	return nil
}

func (s *scope) copyIndex(args ...any) (any, error) {
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
		return nil, fmt.Errorf("copyIndex: there is no enclosing loop %q", loop)
	}
	return float64(i) + offset, nil
}

// lambda is an anonymous function, such as lambda('x', …): parameter names and an expression.
type lambda struct {
	args []*node
	in   *scope
}

func (l lambda) of(args ...any) (any, error) {
	inner := *l.in
	if inner.bound = maps.Clone(l.in.bound); inner.bound == nil {
		inner.bound = map[string]any{}
	}
	last := len(l.args) - 1
	for i, name := range l.args[:min(last, len(args))] {
		inner.bound[strings.ToLower(fmt.Sprint(name.value))] = args[i]
	}
	return inner.known(l.args[last])
}

func (s *scope) lambdaVariable(name string) (any, error) {
	v, ok := s.bound[strings.ToLower(name)]
	if !ok {
		return nil, fmt.Errorf("%s is not an argument of an enclosing lambda", name)
	}
	return v, nil
}

func (l lambda) each(list []any, take func(v, made any)) error {
	for i, v := range list {
		made, err := l.of(v, float64(i))
		if err != nil {
			return err
		}
		take(v, made)
	}
	return nil
}

func (s *scope) own(name string) any {
	namespace, name, _ := strings.Cut(name, ".")
	for _, v := range s.functions {
		if n, _ := member(v, "namespace"); !strings.EqualFold(fmt.Sprint(n), namespace) {
			continue
		}
		members, _ := member(v, "members")
		declared, err := member(members, name)
		if err != nil {
			continue
		}
		return func(args ...any) (any, error) { return s.callOwn(declared, args) }
	}
	return nil
}

// callOwn calls a function that the template declares. It can use only its own parameters.
func (s *scope) callOwn(declared any, args []any) (any, error) {
	inner := newScope(s.shared, nil, map[string]any{})
	inner.functions = s.functions
	v, _ := member(declared, "parameters")
	parameters, _ := v.([]any)
	for i, p := range parameters {
		name, _ := member(p, "name")
		if i >= len(args) {
			return nil, fmt.Errorf("the argument %v is missing", name)
		}
		inner.given[strings.ToLower(fmt.Sprint(name))] = args[i]
	}
	output, _ := member(declared, "output")
	value, err := member(output, "value")
	if err != nil {
		return nil, errors.New("the function's declaration has no output with a value")
	}
	return inner.resolve(value)
}

func argument[T any](args []any, i int) (T, error) {
	if i >= len(args) {
		return *new(T), fmt.Errorf("argument %d is missing", i+1)
	}
	v, ok := args[i].(T)
	if !ok {
		return v, wrongArgument(i, args[i], reflect.TypeFor[T]())
	}
	return v, nil
}
