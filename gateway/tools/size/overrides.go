package main

import (
	"cmp"
	"fmt"
	"go/types"
	"slices"
)

// fronts are the interfaces of the package core between bridges, the broker and engines.
var fronts = []string{"Broker", "Sender", "Receiver", "Session", "Transaction", "Admin", "Store", "Operations"}

// backs are the packages that implement them.
var backs = []string{"core/broker", "core/store", "core/intercept"}

// wrapper is a package with types that stand in front of others of the same interface.
type wrapper struct {
	folder  string
	methods int      // of the interfaces, which its types declare
	files   []string // with such methods
}

// overrides lists methods of the named interfaces that are declared outside of the packages that
// implement them. For each type that has all methods of an interface, its own or embedded ones, it
// lists those that the type declares itself. A method counts once for a type.
func overrides(m *module, names []string) ([]wrapper, error) {
	interfaces, err := m.interfaces(names)
	if err != nil {
		return nil, err
	}
	var all []wrapper
	for _, p := range m.packages {
		if part, _ := partOf(p.folder + "/x.go"); part != product || slices.ContainsFunc(backs, func(back string) bool { return within(p.folder, back) }) {
			continue
		}
		w := wrapper{folder: p.folder}
		for _, name := range p.types.Scope().Names() {
			for _, method := range overridden(p.types.Scope().Lookup(name), interfaces) {
				w.methods++
				w.files = append(w.files, p.file(method.Pos()))
			}
		}
		slices.Sort(w.files)
		w.files = slices.Compact(w.files)
		if w.methods > 0 {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b wrapper) int { return cmp.Or(b.methods-a.methods, cmp.Compare(a.folder, b.folder)) })
	return all, nil
}

func (m *module) interfaces(names []string) (all []*types.Interface, err error) {
	for _, name := range names {
		found, err := m.core(name)
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

// core returns an interface of the package core.
func (m *module) core(name string) (*types.Interface, error) {
	p, ok := m.byFolder["core"]
	if !ok {
		return nil, fmt.Errorf("the module has no package core")
	}
	object := p.types.Scope().Lookup(name)
	if object == nil {
		return nil, fmt.Errorf("core declares no %s", name)
	}
	found, ok := object.Type().Underlying().(*types.Interface)
	if !ok {
		return nil, fmt.Errorf("core.%s is not an interface", name)
	}
	return found, nil
}

// overridden returns the methods that a type declares of the interfaces that it implements.
func overridden(object types.Object, interfaces []*types.Interface) (methods []*types.Func) {
	declared, ok := object.(*types.TypeName)
	if !ok || declared.IsAlias() {
		return nil
	}
	named, ok := declared.Type().(*types.Named)
	if !ok || types.IsInterface(named) || named.TypeParams().Len() > 0 {
		return nil
	}
	of := map[string]bool{}
	for _, i := range interfaces {
		if !types.Implements(types.NewPointer(named), i) {
			continue
		}
		for method := range i.Methods() {
			of[method.Name()] = true
		}
	}
	for method := range named.Methods() {
		if of[method.Name()] {
			methods = append(methods, method)
		}
	}
	return methods
}

// within reports whether a folder is another or below it.
func within(folder, of string) bool {
	return folder == of || len(folder) > len(of) && folder[:len(of)] == of && folder[len(of)] == '/'
}
