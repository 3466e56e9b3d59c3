package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/arm"
	"github.com/crosstown-mq/crosstown/internal/spelling"
)

type Source struct {
	Contents
	// Skipped has a line for each setting in the source that Crosstown does not have.
	Skipped []string
}

type SourceOptions struct {
	Namespace  string            // namespace to read; "" means the only one, or the gateway's own
	Parameters map[string]string // values of parameters of an ARM template, by name
	File       string            // parameters file of an ARM template, or ""
	Environ    []string          // NAME=VALUE entries; the file may name variables that contain keys
}

// ReadSource reads entities from a configuration file in YAML, from Config.json of the official
// emulator, or from an ARM template. It ignores the variables CROSSTOWN_…, but the file may name
// other variables. An error is of type Problems.
func ReadSource(path string, o SourceOptions) (*Source, error) {
	at := origin{source: path}
	name, template, err := formOfFile(path)
	switch {
	case err != nil:
		return nil, err
	case strings.EqualFold(filepath.Ext(path), ".bicep"):
		return nil, Problems{{at, "the file is written in Bicep: compile the file with: az bicep build --file " + path + ", then specify the JSON file that this creates"}}
	case template != nil:
		return readTemplate(path, template, &o)
	}
	if len(o.Parameters) > 0 || o.File != "" {
		return nil, Problems{{at, "the file is not an ARM template, so it has no parameters: leave out --parameter and --parameters"}}
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	Bind(flags)
	_ = flags.Set(name, path)  // no error: the flag accepts any text
	_ = flags.Set("data", ".") // validation requires the setting, but nothing uses it here
	c, r := load(flags, slices.DeleteFunc(slices.Clone(o.Environ), func(entry string) bool { return strings.HasPrefix(entry, envPrefix) }))
	if err := r.err(); err != nil {
		return nil, err
	}
	for _, k := range c.newKeys {
		k.of.Key = ""
	}
	c.overridePolicies()
	if o.Namespace == "" || o.Namespace == c.Namespace {
		return &Source{c.Contents, c.Skipped}, nil
	}
	if i := slices.IndexFunc(c.Namespaces, func(n Namespace) bool { return n.Name == o.Namespace }); i >= 0 {
		return &Source{c.Namespaces[i].Contents, c.Skipped}, nil
	}
	return nil, Problems{{at, fmt.Sprintf("the file has no namespace %q: specify %q, the gateway's own, or one that the file lists under namespaces", o.Namespace, c.Namespace)}}
}

// formOfFile detects what the file contains. For an ARM template it returns the parsed JSON, for
// other files the name of the flag that loads such a file. An error is of type Problems.
func formOfFile(path string) (flag string, template any, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", nil, Problems{{origin{source: path}, fmt.Sprintf("%v: specify a file that exists and that the current user may read", err)}}
	}
	r := &report{}
	document := parseJSON(path, data, r)
	if document == nil && strings.EqualFold(filepath.Ext(path), ".json") {
		return "", nil, r.err()
	}
	root, _ := document.(map[string]any)
	_, isEmulators := root["Namespaces"] // a Config.json without UserConfig, which is an error
	switch {
	case isEmulators, member(root, "UserConfig") != nil:
		return "emulator-config", nil, nil
	case member(root, "resources") != nil:
		return "", document, nil
	}
	return fileFlag, nil, nil
}

// template converts an ARM template to the values of a configuration file. It uses the emulator's
// conversions, because resources have the same properties as the objects in Config.json.
type template struct {
	e      *emulator
	chosen string         // name of the namespace to read; "" means the only one
	index  map[string]int // position of each object in its list, by the path of the list and the name
	others []string       // types of the resources that do not belong to Service Bus
}

func readTemplate(path string, document any, o *SourceOptions) (*Source, error) {
	r := &report{origins: origins{}}
	root, _ := document.(map[string]any)
	found, problems := arm.Read(root, arm.Options{File: readParameters(o.File, r), Given: o.Parameters, Reads: readsOfTemplate})
	for _, p := range problems {
		r.addAt(origin{source: path, path: p.Path}, "%s", p.Text)
	}
	t := &template{e: &emulator{path: path, r: r, values: map[string]any{}}, chosen: o.Namespace, index: map[string]int{}}
	t.choose(found)
	for i := range found {
		t.add(&found[i])
	}
	slices.Sort(t.others)
	for _, typ := range slices.Compact(t.others) {
		t.e.skip("resources of the type %s: Crosstown has no such resource", typ)
	}
	var c Config
	decode(r, t.e.values, reflect.ValueOf(&c.Contents).Elem(), "")
	c.validatePolicies("", &c, r)
	c.validateEntities("", core.Limits{}, r)
	return &Source{c.Contents, t.e.skipped}, r.err()
}

func readParameters(path string, r *report) map[string]any {
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		r.addAt(origin{source: "--parameters"}, "%v: specify a file that exists and that the current user may read", err)
		return nil
	}
	if strings.EqualFold(filepath.Ext(path), ".bicepparam") {
		r.addAt(origin{source: path}, "the file is written in Bicep: compile the file with: az bicep build-params --file %s, then specify the JSON file that this creates", path)
		return nil
	}
	parameters, ok := member(parseJSON(path, data, r), "parameters").(map[string]any)
	if !ok && len(r.problems) == 0 {
		r.addAt(origin{source: path}, "the file has no parameters: specify an ARM parameters file")
	}
	return parameters
}

var kindsOfTemplate = map[string]core.Kind{"queues": core.Queue, "topics": core.Topic, "topics/subscriptions": core.Subscription}

// readsOfTemplate is Options.Reads of package arm, for the properties that template.add uses.
func readsOfTemplate(kind, property string) bool {
	if k, ok := kindsOfTemplate[kind]; ok {
		return property == "" || settingOf(k, property) != nil
	}
	switch kind {
	case "":
		return property == ""
	case "authorizationrules", "queues/authorizationrules", "topics/authorizationrules":
		return property == "" || strings.EqualFold(property, "rights")
	}
	return kind == "topics/subscriptions/rules"
}

func (t *template) choose(found []arm.Resource) {
	var names []string
	for i := range found {
		r := &found[i]
		if !t.isBus(r) {
			continue
		}
		if strings.Contains(r.Names[0], "\x00") { // all names whose value is not known count as one
			r.Names[0] = "?"
		}
		if !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, r.Names[0]) }) {
			names = append(names, r.Names[0])
		}
	}
	at := origin{source: t.e.path}
	switch {
	case t.chosen == "" && len(names) > 1:
		t.e.r.addAt(at, "the template has %d namespaces (%[2]s): choose one of them with --namespace", len(names), strings.Join(names, ", "))
		t.chosen = names[0]
	case t.chosen != "" && !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, t.chosen) }):
		t.e.r.addAt(at, "the template has no namespace %q: choose one of %s", t.chosen, strings.Join(names, ", "))
	case len(names) == 0 && len(t.e.r.problems) == 0:
		t.e.r.addAt(at, "the template has no resource of the type %s: specify a template that has queues or topics", arm.ServiceBus)
	}
}

// isBus reports whether r is a resource that add reads: package arm sets no Names for others.
func (t *template) isBus(r *arm.Resource) bool { return len(r.Names) > 0 }

// add adds r to the entities. Resources come in any order. r may belong to a topic that is not in
// the template, because the topic already exists.
func (t *template) add(r *arm.Resource) {
	if !t.isBus(r) {
		t.others = append(t.others, strings.Join(r.Types, "/"))
		return
	}
	if t.chosen != "" && !strings.EqualFold(r.Names[0], t.chosen) {
		return
	}
	kind, names := r.Kind(), r.Names[1:]
	if len(names) > 0 {
		names[0] = strings.ReplaceAll(names[0], "~", "/") // Azure writes ~ for a slash in the name of a queue or topic
	}
	what := strings.TrimSpace(kind + " " + strings.Join(names, "/"))
	switch kind {
	case "":
		what = "the namespace"
		for _, name := range slices.Sorted(maps.Keys(r.Properties)) {
			t.e.skip("property %s of the namespace: a gateway has no such setting", name)
		}
	case "queues", "topics":
		entity, at := t.named(t.e.values, kind, names[0], r.Path)
		maps.Copy(entity, t.e.entity(object(names, r.Properties), r.Path, at, kindsOfTemplate[kind]))
	case "topics/subscriptions":
		topic, at := t.named(t.e.values, "topics", names[0], "")
		subscription, at := t.named(topic, at+".subscriptions", names[1], r.Path)
		maps.Copy(subscription, t.e.entity(object(names, r.Properties), r.Path, at, core.Subscription))
	case "topics/subscriptions/rules":
		topic, at := t.named(t.e.values, "topics", names[0], "")
		subscription, at := t.named(topic, at+".subscriptions", names[1], "")
		rule, at := t.named(subscription, at+".rules", names[2], r.Path)
		maps.Copy(rule, t.e.rule(object(names, ruleProperties(r.Properties)), r.Path, at))
	case "authorizationrules":
		addPolicies(t.e.values, []any{policyOf(names[0], r)}, origin{source: t.e.path, path: r.Path}, t.e.r)
	case "queues/authorizationrules", "topics/authorizationrules":
		owners, _, _ := strings.Cut(kind, "/")
		owner, _ := t.named(t.e.values, owners, names[0], "")
		list, _ := owner["policies"].([]any)
		owner["policies"] = append(list, policyOf(names[1], r))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Other)) {
		t.e.skip("%s of %s: Crosstown has no such setting", name, what)
	}
}

// named returns an object of a list, and the object's path in the configuration. It adds the object
// if the list, which is a member of owner and has the path at, does not contain it. place is the
// object's path in the template; "" keeps the path of an earlier call.
func (t *template) named(owner map[string]any, at, name, place string) (o map[string]any, path string) {
	key, member := at+"/"+core.FoldName(name), at[strings.LastIndexByte(at, '.')+1:]
	list, _ := owner[member].([]any)
	i, ok := t.index[key]
	if !ok {
		i = len(list)
		t.index[key] = i
		o = map[string]any{"name": name}
		if list = append(list, o); member == "topics" {
			o["subscriptions"] = []any{}
		}
		owner[member] = list
	}
	if path = elementPath(at, i); place != "" {
		t.e.r.origins[path] = origin{source: t.e.path, path: place}
	}
	return list[i].(map[string]any), path
}

// object returns an object in the form of the emulator's Config.json.
func object(names []string, properties map[string]any) map[string]any {
	return map[string]any{"Name": names[len(names)-1], "Properties": properties}
}

func policyOf(name string, r *arm.Resource) map[string]any {
	p := map[string]any{"name": name}
	if rights, _ := member(r.Properties, "rights").([]any); len(rights) > 0 {
		p["rights"] = rights
	}
	return p
}

// ruleProperties removes properties that only select the SQL dialect. It adds a missing filterType.
func ruleProperties(properties map[string]any) map[string]any {
	kept := map[string]any{}
	for name, v := range properties {
		if o, ok := v.(map[string]any); ok {
			o = maps.Clone(o)
			maps.DeleteFunc(o, func(name string, _ any) bool {
				return slices.Contains([]string{"requirespreprocessing", "compatibilitylevel"}, spelling.Fold(name))
			})
			v = o
		}
		kept[name] = v
	}
	if member(kept, "filterType") == nil {
		switch {
		case member(kept, "sqlFilter") != nil:
			kept["filterType"] = "SqlFilter"
		case member(kept, "correlationFilter") != nil:
			kept["filterType"] = "CorrelationFilter"
		}
	}
	return kept
}
