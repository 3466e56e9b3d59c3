package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/core"
)

// The path of the configuration file is not a setting: it is only a flag and a variable.
const (
	fileFlag     = "config"
	fileVariable = envPrefix + "CONFIG"
)

// This flag and this variable add policies, written as NAME=KEY:RIGHTS, to those of the file.
const (
	policyFlag     = "policy"
	policyVariable = envPrefix + "POLICY"
)

// raw is a flag that accepts any text. Load checks all values later and reports all problems.
type raw struct {
	values   []string
	typ      string
	repeated bool
}

func (f *raw) String() string { return strings.Join(f.values, ",") }
func (f *raw) Type() string   { return f.typ }

func (f *raw) Set(s string) error {
	if !f.repeated {
		f.values = nil
	}
	f.values = append(f.values, s)
	return nil
}

const FlagValues = "values"

func Bind(flags *pflag.FlagSet) {
	flags.Var(&raw{typ: "FILE"}, fileFlag, "configuration file in YAML (see configs/crosstown.yaml)")
	defaults := reflect.ValueOf(Default()).Elem()
	for _, s := range settings(reflect.TypeFor[Config]()) {
		if s.usage != "" {
			bind(flags, s, fmt.Sprint(defaults.FieldByIndex(s.index)))
		}
	}
	flags.Var(&raw{typ: "NAME=KEY:RIGHTS", repeated: true}, policyFlag, "shared access policy of the gateway's own namespace, such as app=KEY:Send,Listen; app=@FILE:Send with the key in a file; or app:Send with a key that the gateway generates; repeatable")
}

func BindSettings(flags *pflag.FlagSet, k core.Kind) {
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "session-aware" {
			name = "requires-session"
		}
		return pflag.NormalizedName(name)
	})
	for _, s := range settingsOf(k) {
		if s.usage != "" {
			bind(flags, s, "")
		}
	}
}

func bind(flags *pflag.FlagSet, s setting, deflt string) {
	typ := s.typ
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	value := &raw{repeated: typ.Kind() == reflect.Slice}
	switch {
	case typ.Kind() == reflect.Bool:
		value.typ = "bool"
	case typ.Name() == "Duration":
		value.typ = "duration"
	case typ.Kind() == reflect.Int, typ.Kind() == reflect.Int64, typ.Kind() == reflect.Float64:
		value.typ = "number"
	default:
		value.typ = "text"
	}
	usage := s.usage
	if shown := strings.Trim(deflt, "[]"); shown != "" && shown != "0" && shown != "false" && !strings.Contains(usage, "(default") {
		usage += " (default " + strings.ReplaceAll(shown, " ", ", ") + ")"
	}
	f := flags.VarPF(value, s.flag(), "", usage)
	f.NoOptDefVal = s.alone
	if s.words != "" {
		f.Annotations = map[string][]string{FlagValues: strings.Split(s.words, ", ")}
	}
	if value.typ == "bool" {
		f.NoOptDefVal = "true"
	}
}

func flagLayer(flags *pflag.FlagSet, all []setting) layer {
	l := newLayer()
	for _, s := range all {
		f := flags.Lookup(s.flag())
		if f == nil || !f.Changed {
			continue
		}
		value := f.Value.(*raw)
		if value.repeated {
			l.set(s.path, anys(value.values), "--"+f.Name)
		} else {
			l.set(s.path, value.String(), "--"+f.Name)
		}
	}
	return l
}

// valuesOf returns the values given for a flag, or nil if flags does not define it.
func valuesOf(flags *pflag.FlagSet, name string) []string {
	if f := flags.Lookup(name); f != nil {
		return f.Value.(*raw).values
	}
	return nil
}

// anys splits each value of a repeated flag at commas, and returns all parts in one list.
func anys(texts []string) []any {
	var all []any
	for _, t := range texts {
		for part := range strings.SplitSeq(t, ",") {
			all = append(all, strings.TrimSpace(part))
		}
	}
	return all
}
