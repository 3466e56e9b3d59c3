package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/spelling"
)

// layer contains the values from one source, such as a file, as nested maps.
type layer struct {
	values  map[string]any
	origins origins
}

func newLayer() layer { return layer{map[string]any{}, origins{}} }

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

func readFile(path string, by origin, r *report) layer {
	l := newLayer()
	data, err := os.ReadFile(path)
	if err != nil {
		r.addAt(by, "%v: specify a file that exists and that the current user may read", err)
		return l
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return l // an empty file is not an error
	case err != nil && !utf8.Valid(data):
		r.addAt(origin{source: path}, "the file is not text in UTF-8: save it in UTF-8")
		return l
	case err != nil:
		r.addAt(syntaxOrigin(path, err), "%v: the file must be valid YAML", err)
		return l
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		r.addAt(origin{source: path}, "the file contains more than one YAML document: keep one, and remove the others")
	}
	file := yamlFile{path, l, r}
	switch root := file.value(document.Content[0], "").(type) {
	case map[string]any:
		l.values = root
	case nil:
	default:
		r.addAt(origin{source: path, line: 1}, "the file is not a mapping: write each setting as 'name: value' on a line of its own")
	}
	return l
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

func syntaxOrigin(path string, err error) origin {
	at := origin{source: path}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		at.line, _ = strconv.Atoi(m[1])
	}
	return at
}

type yamlFile struct {
	name  string
	layer layer
	r     *report
}

func (f yamlFile) value(n *yaml.Node, path string) any {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if path != "" {
		f.layer.origins[path] = origin{f.name, n.Line, path}
	}
	switch n.Kind {
	case yaml.MappingNode:
		values := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			f.entry(values, n.Content[i], n.Content[i+1], path)
		}
		return values
	case yaml.SequenceNode:
		values := make([]any, len(n.Content))
		for i, element := range n.Content {
			values[i] = f.value(element, path+"["+strconv.Itoa(i)+"]")
		}
		return values
	default:
		return f.scalar(n, path)
	}
}

func (f yamlFile) entry(values map[string]any, key, value *yaml.Node, path string) {
	name := key.Value
	inner := name
	if path != "" {
		inner = path + "." + name
	}
	if _, twice := values[name]; twice {
		f.r.addAt(origin{f.name, key.Line, inner}, "the setting is set twice, first on line %d: keep one", f.layer.origins[inner].line)
		return
	}
	v := f.value(value, inner)
	f.layer.origins[inner] = origin{f.name, key.Line, inner}
	if v != nil { // ignore "name:" without a value
		values[name] = v
	}
}

// scalar decodes a YAML scalar. It returns a timestamp as a string.
func (f yamlFile) scalar(n *yaml.Node, path string) any {
	if n.Tag == "!!timestamp" {
		return n.Value
	}
	var v any
	if err := n.Decode(&v); err != nil {
		f.r.addAt(origin{f.name, n.Line, path}, "%v", fmt.Errorf("%q: %w", n.Value, err))
		return nil
	}
	return v
}

const envPrefix = "CROSSTOWN_"

// otherVariables begin with envPrefix, but are not settings. Only tests use BINARY.
var otherVariables = []string{envPrefix + "BINARY", envPrefix + "CONNECTION_STRING", envPrefix + "CONTEXT", envPrefix + "CONTEXTS", fileVariable, policyVariable}

// serviceLink matches variables that Kubernetes and Docker set for a service called crosstown or
// crosstown-….
var serviceLink = regexp.MustCompile(`_SERVICE_(HOST|PORT)|_PORT(_\d+_(TCP|UDP|SCTP).*)?$|_NAME$|_ENV_`)

// envLayer reads settings from environ. It reports unknown variables that begin with envPrefix.
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

func Data(environ []string) string {
	if dir := Variable(environ, envPrefix+"DATA"); dir != "" {
		return dir
	}
	if base := Variable(environ, "XDG_DATA_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "crosstown")
	}
	if home := Variable(environ, "HOME"); home != "" {
		return filepath.Join(home, ".local", "share", "crosstown")
	}
	if base := Variable(environ, "LOCALAPPDATA"); filepath.IsAbs(base) { // on Windows
		return filepath.Join(base, "crosstown")
	}
	return ""
}

// Variable returns the value in the last NAME=VALUE entry for name in environ, or "".
func Variable(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

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
