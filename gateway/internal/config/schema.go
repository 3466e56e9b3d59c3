package config

import (
	"reflect"
	"strings"

	"github.com/crosstown-mq/crosstown/internal/spelling"
)

// setting is a leaf of Config that a flag or a variable can set.
type setting struct {
	path  string // "log.level"
	usage string // without one it has no flag
	alone string // what the flag without a value means; "": it needs one
	typ   reflect.Type
}

func (s setting) flag() string { return strings.ReplaceAll(s.path, ".", "-") }

func (s setting) variable() string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(s.path))
}

// settings lists the leaves of a configuration structure; lists of structures and
// optional ones are left out.
func settings(t reflect.Type, prefix string) []setting {
	var all []setting
	for f := range fields(t) {
		path := prefix + f.Tag.Get("koanf")
		switch {
		case f.Type.Kind() == reflect.Struct:
			all = append(all, settings(f.Type, path+".")...)
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
		default:
			all = append(all, setting{path, f.Tag.Get("usage"), f.Tag.Get("alone"), f.Type})
		}
	}
	return all
}

// fields yields a structure's fields, those of embedded structures in their place.
func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for _, f := range reflect.VisibleFields(t) {
			if !f.Anonymous && f.Tag.Get("koanf") != "-" && !yield(f) {
				return
			}
		}
	}
}

// unknown reports every name in v that t does not have, at its path.
func unknown(r *report, v any, t reflect.Type, path string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := v.(type) {
	case []any:
		if t.Kind() == reflect.Slice {
			for i, element := range v {
				unknown(r, element, t.Elem(), elementPath(path, i))
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return // of the wrong type: decoding says so
		}
		types := map[string]reflect.Type{}
		var known []string
		for f := range fields(t) {
			types[f.Tag.Get("koanf")] = f.Type
			known = append(known, f.Tag.Get("koanf"))
		}
		for name, inner := range v {
			innerPath := strings.TrimPrefix(path+"."+name, ".")
			if typ, ok := types[name]; ok {
				unknown(r, inner, typ, innerPath)
			} else if near := spelling.Nearest(name, known); len(near) > 0 {
				r.add(innerPath, "there is no such setting: did you mean %s?", near[0])
			} else {
				r.add(innerPath, "there is no such setting: remove it; there are %s", strings.Join(known, ", "))
			}
		}
	}
}
