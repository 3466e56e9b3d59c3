package arm

import (
	"maps"
	"slices"
	"strings"
)

// identifier is the result of resourceId. Only Azure can convert it to a string.
type identifier struct {
	typ  string
	name string // names of the resource and its parents, separated by slashes; "" if unknown
}

func (identifier) unknown() error {
	return unknownf("the id of a resource can only be determined by Azure")
}

// resourceID implements resourceId. A type in args is followed by one name for each of its parts.
func resourceID(args ...any) identifier {
	for i, a := range args {
		typ, _ := a.(string)
		parts := strings.Count(typ, "/")
		if !strings.Contains(typ, ".") || parts == 0 || i+parts != len(args)-1 {
			continue
		}
		names := make([]string, parts)
		for n := range names {
			name, ok := args[i+1+n].(string)
			if !ok {
				return identifier{typ: typ}
			}
			names[n] = name
		}
		return identifier{typ, strings.Join(names, "/")}
	}
	return identifier{}
}

// pending is a resource, or a part of one, that is not evaluated yet. If an expression selects a
// member, only this member is evaluated: the others may require Azure.
type pending struct {
	v  any
	in *scope
}

// memberOf returns a member of v, which may be pending.
func memberOf(v any, name string) (any, error) {
	later, ok := v.(pending)
	if !ok {
		return member(v, name)
	}
	object := later.v
	if _, isText := object.(string); isText {
		whole, err := later.in.resolve(object)
		if err != nil {
			return nil, err
		}
		return member(whole, name)
	}
	m, err := member(object, name)
	if err != nil {
		return nil, unknownf("the template does not set %s of the resource, so only Azure can determine it", name)
	}
	return pending{m, later.in}, nil
}

// reference implements reference(resource, version, 'Full') for resources of the same template. It
// fails for properties that the template does not set.
func (s *scope) reference(args ...any) (any, error) {
	if len(args) == 0 {
		return nil, unknownf("reference() can only be evaluated by Azure")
	}
	r, in := s.resourceOf(args[0])
	if r == nil {
		return nil, unknownf("reference(…) of a resource that the template does not create can only be evaluated by Azure")
	}
	properties, _ := r["properties"].(map[string]any)
	if typ, _ := r["type"].(string); strings.EqualFold(typ, deployments) {
		template, _ := properties["template"].(map[string]any)
		if template == nil || in.nested >= maxNested {
			return nil, unknownf("reference(…) of a linked template can only be evaluated by Azure")
		}
		return pending{map[string]any{"outputs": template["outputs"]}, in.inside(properties, template)}, nil
	}
	if len(args) > 2 && strings.EqualFold(textOf(args[2]), "full") {
		return pending{r, in}, nil
	}
	return pending{properties, in}, nil
}

// resourceOf returns the resource with a symbolic name or id. It returns nil for other resources.
func (s *scope) resourceOf(named any) (map[string]any, *scope) {
	switch named := named.(type) {
	case string:
		symbolic, _ := s.deployed.(map[string]any)
		found, _ := member(symbolic, named)
		r, _ := found.(map[string]any)
		if existing, _ := r["existing"].(bool); !existing {
			return r, s
		}
		typ, _ := r["type"].(string)
		name, _ := s.resolve(r["name"]) // if there is an error, identified searches by type only
		text, _ := name.(string)
		return s.identified(identifier{typ, text})
	case identifier:
		return s.identified(named)
	}
	return nil, nil
}

// identified returns the resource with this id in the template or an enclosing template. If the
// name in the id is unknown, it returns the only resource of the type.
func (s *scope) identified(id identifier) (found map[string]any, in *scope) {
	for ; s != nil; s = s.around {
		all, _ := s.deployed.([]any)
		if symbolic, ok := s.deployed.(map[string]any); ok {
			all = slices.Collect(maps.Values(symbolic))
		}
		for _, v := range all {
			r, _ := v.(map[string]any)
			typ, _ := r["type"].(string)
			if existing, _ := r["existing"].(bool); existing || r["copy"] != nil || !strings.EqualFold(typ, id.typ) {
				continue
			}
			name, err := s.resolve(r["name"])
			text, isText := name.(string)
			switch known := err == nil && isText && id.name != ""; {
			case known && strings.EqualFold(text, id.name):
				return r, s
			case !known && found != nil:
				return nil, nil
			case !known:
				found, in = r, s
			}
		}
	}
	return found, in
}
