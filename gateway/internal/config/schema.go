package config

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// setting is a leaf of Config that a flag or a variable can set.
type setting struct {
	path  string // "log.level"
	usage string // without one it has no flag
	alone string // what the flag without a value means; "": it needs one
	words string // its values, if there are a few
	typ   reflect.Type
	index []int // of the field, for reflect.Value.FieldByIndex
}

func (s setting) flag() string { return strings.ReplaceAll(s.path, ".", "-") }

func (s setting) variable() string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(s.path))
}

// settings lists the leaves of a configuration structure; lists of structures and
// optional ones are left out.
func settings(t reflect.Type) []setting {
	var all []setting
	for _, f := range fields(t) {
		name := f.Tag.Get("config")
		switch {
		case f.Type.Kind() == reflect.Struct:
			for _, s := range settings(f.Type) {
				s.path, s.index = name+"."+s.path, slices.Concat(f.Index, s.index)
				all = append(all, s)
			}
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
		default:
			all = append(all, setting{name, f.Tag.Get("usage"), f.Tag.Get("alone"), f.Tag.Get("values"), f.Type, f.Index})
		}
	}
	return all
}

// knownFields are the fields of structures, by type: each command binds flags of several.
var knownFields sync.Map

// fields lists a structure's fields, those of embedded structures in their place.
func fields(t reflect.Type) []reflect.StructField {
	if known, ok := knownFields.Load(t); ok {
		return known.([]reflect.StructField)
	}
	all := slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Anonymous || f.Tag.Get("config") == "-" })
	knownFields.Store(t, all)
	return all
}
