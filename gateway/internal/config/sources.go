package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/internal/spelling"
)

const envPrefix = "CROSSTOWN_"

// The file is named by a flag or a variable, not by a setting.
const (
	fileFlag     = "config"
	fileVariable = envPrefix + "CONFIG"
)

// Policies come as NAME=KEY:RIGHTS beside the file's list, and add to it.
const (
	policyFlag     = "policy"
	policyVariable = envPrefix + "POLICY"
)

// otherVariables are used elsewhere in the program; BINARY names the program to tests that start it.
var otherVariables = []string{envPrefix + "BINARY", envPrefix + "CONNECTION_STRING", envPrefix + "CONTEXT", envPrefix + "CONTEXTS", fileVariable, policyVariable}

// serviceLink matches what Kubernetes and Docker put into the environment of
// neighbours of a service called crosstown or crosstown-something.
var serviceLink = regexp.MustCompile(`_SERVICE_(HOST|PORT)|_PORT(_\d+_(TCP|UDP|SCTP).*)?$|_NAME$|_ENV_`)

// raw is the text of a flag, decoded later with everything else so that all
// that is wrong is reported together.
type raw struct {
	values   []string
	typ      string
	repeated bool
}

func (f *raw) String() string { return strings.Join(f.values, ",") }
func (f *raw) Type() string   { return f.typ }

// Set keeps the text as it is.
func (f *raw) Set(s string) error {
	if !f.repeated {
		f.values = nil
	}
	f.values = append(f.values, s)
	return nil
}

// FlagValues is the annotation of a flag that has its values, if there are a few.
const FlagValues = "values"

// Bind adds the gateway's flags to a command.
func Bind(flags *pflag.FlagSet) {
	flags.Var(&raw{typ: "FILE"}, fileFlag, "configuration file in YAML (see configs/crosstown.yaml)")
	defaults := reflect.ValueOf(Default()).Elem()
	for _, s := range settings(reflect.TypeFor[Config]()) {
		if s.usage != "" {
			bind(flags, s, fmt.Sprint(defaults.FieldByIndex(s.index)))
		}
	}
	flags.Var(&raw{typ: "NAME=KEY:RIGHTS", repeated: true}, policyFlag, "shared access policy of the namespace, such as app=KEY:Send,Listen, app=@FILE:Send with the key in a file, or app:Send with a key that the gateway makes; repeatable")
}

// BindSettings adds an entity's settings to a command.
func BindSettings[T EntitySettings](flags *pflag.FlagSet) {
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "session-aware" {
			name = "requires-session"
		}
		return pflag.NormalizedName(name)
	})
	for _, s := range settings(reflect.TypeFor[T]()) {
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

// flagLayer is what the flags that were given set.
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

// anys turns the texts of a repeated flag, each of which may hold several
// separated by commas, into a list.
func anys(texts []string) []any {
	var all []any
	for _, t := range texts {
		for part := range strings.SplitSeq(t, ",") {
			all = append(all, strings.TrimSpace(part))
		}
	}
	return all
}

// envLayer is what the environment sets. Variables with our prefix that mean
// nothing are reported, apart from those that orchestrators make up.
func envLayer(environ []string, all []setting, r *report) layer {
	l := newLayer()
	known := slices.Clone(otherVariables)
	byVariable := map[string]setting{}
	for _, s := range all {
		known = append(known, s.variable())
		byVariable[s.variable()] = s
	}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		s, ok := byVariable[name]
		switch {
		case ok && value != "":
			l.set(s.path, value, name)
		case ok, slices.Contains(otherVariables, name), serviceLink.MatchString(name):
		default:
			text := "no setting has this variable: unset it"
			if near := spelling.Nearest(name, known); len(near) > 0 {
				text = "no setting has this variable: did you mean " + near[0] + "?"
			}
			r.addAt(origin{source: name}, "%s", text)
		}
	}
	return l
}

func (l layer) set(path string, value any, source string) {
	values := l.values
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		if values[name] == nil {
			values[name] = map[string]any{}
		}
		values = values[name].(map[string]any)
	}
	values[names[len(names)-1]] = value
	l.origins[path] = origin{source: source}
}

// elementPath is the path of a list's element.
func elementPath(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// policiesOf turns NAME=KEY:RIGHTS texts into entries like those of the file's list; NAME=@FILE:RIGHTS has its key in a
// file, NAME:RIGHTS one that the gateway makes.
func policiesOf(texts []string, source string, r *report) []any {
	var all []any
	for _, text := range texts {
		name, rest, named := strings.Cut(text, "=")
		if !named { // it has no key
			if colon := strings.LastIndexByte(text, ':'); colon >= 0 {
				name, rest = text[:colon], text[colon:]
			}
		}
		colon := strings.LastIndexByte(rest, ':')
		if colon < 0 || named && colon == 0 {
			r.addAt(origin{source: source}, "a policy named %.40q is not complete: write NAME=KEY:RIGHTS, such as app=KEY:Send,Listen, or NAME:RIGHTS for a key that the gateway makes", name)
			continue
		}
		entry := map[string]any{"name": name, "rights": rest[colon+1:]}
		if file, ok := strings.CutPrefix(rest[:colon], "@"); ok {
			entry["key-file"] = file
		} else if named {
			entry["key"] = rest[:colon]
		}
		all = append(all, entry)
	}
	return all
}

// Variable returns a variable's value in an environment of NAME=VALUE entries; the last counts.
func Variable(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
