package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/core"
)

// Load reads the configuration from flags that Bind has defined, from the NAME=VALUE entries in
// environ, and from the file that one of them names. flags may be nil. An error is a Problems.
func Load(flags *pflag.FlagSet, environ []string) (*Config, error) {
	c, r := load(flags, environ)
	c.overridePolicies()
	return c, r.err()
}

// load is Load without overridePolicies, which removes all but the last policy of each name.
func load(flags *pflag.FlagSet, environ []string) (*Config, *report) {
	r := &report{origins: origins{}}
	c := Default()
	c.Data = Data(environ)

	if flags == nil {
		flags = pflag.NewFlagSet("", pflag.ContinueOnError)
	}
	file := newLayer()
	if names := valuesOf(flags, fileFlag); len(names) > 0 {
		file = readFile(names[0], origin{source: "--" + fileFlag}, r)
	} else if name := Variable(environ, fileVariable); name != "" {
		file = readFile(name, origin{source: fileVariable}, r)
	}
	all := settings(reflect.TypeFor[Config]())
	values := map[string]any{}
	for _, l := range []layer{file, envLayer(environ, all, r), flagLayer(flags, all)} {
		r.origins.overlay(l.origins)
		merge(values, l.values)
	}
	addPolicies(values, policiesOf(strings.FieldsFunc(Variable(environ, policyVariable), isPolicySeparator), policyVariable, r), origin{source: policyVariable}, r)
	addPolicies(values, policiesOf(valuesOf(flags, policyFlag), "--"+policyFlag, r), origin{source: "--" + policyFlag}, r)

	addContainer(values, environ, containerFile, r)
	c.Skipped, c.Assumed = addEmulator(values, r)

	decode(r, values, reflect.ValueOf(c).Elem(), "")
	if len(c.Listen) == 0 {
		c.Listen = slices.Clone(defaultListen)
	}
	c.Traces.inherit(environ, r)
	c.eachContents(func(prefix, namespace string, h *Contents) { h.completeKeys(prefix, namespace, c, environ, r) })
	c.validate(r)
	c.completeWebhooks(environ, r)
	return c, r
}

// Decode returns the settings of an entity that the flags set. An error is of type Problems.
func Decode(flags *pflag.FlagSet, k core.Kind) (*EntitySettings, error) {
	l := flagLayer(flags, settingsOf(k))
	r, given := &report{origins: l.origins}, new(EntitySettings)
	decode(r, l.values, reflect.ValueOf(given).Elem(), "")
	validateSettings("", given, r)
	return given, r.err()
}

func merge(values, over map[string]any) {
	for name, v := range over {
		m, ok := v.(map[string]any)
		if !ok {
			values[name] = v
			continue
		}
		below, ok := values[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			values[name] = below
		}
		merge(below, m)
	}
}

func isPolicySeparator(c rune) bool { return c == ';' || c == ' ' || c == '\n' }

func addPolicies(values map[string]any, entries []any, from origin, r *report) {
	list, ok := values["policies"].([]any)
	if !ok && values["policies"] != nil {
		return // decode will report the wrong type
	}
	for _, e := range entries {
		r.origins[elementPath("policies", len(list))] = from
		list = append(list, e)
	}
	if list != nil {
		values["policies"] = list
	}
}

// policiesOf parses NAME=KEY:RIGHTS, NAME=@FILE:RIGHTS, or NAME:RIGHTS for a generated key.
func policiesOf(texts []string, source string, r *report) []any {
	var all []any
	for _, text := range texts {
		name, rest, named := strings.Cut(text, "=")
		if !named { // the text is NAME:RIGHTS
			if colon := strings.LastIndexByte(text, ':'); colon >= 0 {
				name, rest = text[:colon], text[colon:]
			}
		}
		colon := strings.LastIndexByte(rest, ':')
		if colon < 0 || named && colon == 0 {
			r.addAt(origin{source: source}, "the policy %.40q is incomplete: write NAME=KEY:RIGHTS, such as app=KEY:Send,Listen, or NAME:RIGHTS for a key that the gateway generates", name)
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

// NeedRestart returns the names of settings that differ from running's and that require a restart:
// those without the tag live.
func (c *Config) NeedRestart(running *Config) []string {
	next := *c
	if next.TLS.Cert != "" && running.TLS.Cert != "" { // only a change between a file and the development certificate needs a restart
		next.TLS.Cert, next.TLS.Key = running.TLS.Cert, running.TLS.Key
	}
	return differences(reflect.ValueOf(*running), reflect.ValueOf(next), "")
}

func differences(a, b reflect.Value, prefix string) (all []string) {
	for _, f := range fields(a.Type()) {
		x, y, path := a.FieldByIndex(f.Index), b.FieldByIndex(f.Index), prefix+f.Tag.Get("config")
		switch {
		case f.Tag.Get("live") != "":
		case f.Type.Kind() == reflect.Struct:
			all = append(all, differences(x, y, path+".")...)
		case isList(f.Type) && x.Len() == y.Len():
			for i := range x.Len() {
				if differences(x.Index(i), y.Index(i), "") != nil {
					all = append(all, path)
					break
				}
			}
		case !reflect.DeepEqual(x.Interface(), y.Interface()):
			all = append(all, path)
		}
	}
	return all
}
