package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
)

// emulator reads the official emulator's Config.json into the same values that
// a file of our own sets. What this version cannot do is skipped, and said.
type emulator struct {
	path    string
	r       *report
	values  map[string]any
	skipped []string
}

// addEmulator adds to values the queues of the emulator's file, if values name
// one, and its namespace unless they name another. It returns a line for each
// thing it skipped.
func addEmulator(values map[string]any, r *report) []string {
	path, ok := values["emulator-config"].(string)
	if !ok || path == "" {
		return nil
	}
	e := &emulator{path: path, r: r, values: values}
	data, err := os.ReadFile(path)
	if err != nil {
		r.add("emulator-config", "%v: name a file that exists and that this user may read", err)
		return nil
	}
	data = standardJSON(data)
	var root any
	if err := json.Unmarshal(data, &root); err != nil {
		line := 1
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			line += strings.Count(string(data[:syntax.Offset]), "\n")
		}
		r.addAt(place{source: path, line: line}, "%v: write it as JSON", err)
		return nil
	}
	for i, ns := range e.list(member(root, "UserConfig"), "Namespaces", "UserConfig") {
		e.namespace(ns, i)
	}
	return e.skipped
}

func (e *emulator) namespace(ns any, i int) {
	at := elementPath("UserConfig.Namespaces", i)
	name := member(ns, "Name")
	if i > 0 {
		e.skip("namespace %v: a gateway serves one namespace in this version", name)
		return
	}
	if e.values["namespace"] == nil && name != nil {
		e.values["namespace"] = name
		e.r.places["namespace"] = e.place(at + ".Name")
	}
	for j, q := range e.list(ns, "Queues", at) {
		e.queue(q, elementPath(at+".Queues", j))
	}
	for _, t := range e.list(ns, "Topics", at) {
		e.skip("topic %v: this version has queues, and no topics", member(t, "Name"))
	}
}

func (e *emulator) queue(q any, at string) {
	name, properties := member(q, "Name"), member(q, "Properties")
	if session, err := convertBool(member(properties, "RequiresSession")); err == nil && session == true {
		e.skip("queue %v: this version has queues without sessions only", name)
		return
	}
	list, ok := e.values["queues"].([]any)
	if !ok && e.values["queues"] != nil {
		return // of the wrong type: decoding says so
	}
	path := elementPath("queues", len(list))
	e.r.places[path] = e.place(at)
	entry := map[string]any{"name": name}
	e.r.places[path+".name"] = e.place(at + ".Name")
	known := settings(reflect.TypeFor[QueueSettings](), "")
	given, _ := properties.(map[string]any)
	for property, v := range given {
		i := slices.IndexFunc(known, func(s setting) bool { return plain(s.path) == plain(property) })
		switch {
		case i < 0:
			e.skip("property %s of queue %v: there is no such setting", property, name)
		case v == nil || v == "": // as the emulator's own sample leaves forwarding
		default:
			entry[known[i].path] = v
			e.r.places[path+"."+known[i].path] = e.place(at + ".Properties." + property)
		}
	}
	e.values["queues"] = append(list, entry)
}

// list returns the list that is v's member; none is empty, anything else a problem.
func (e *emulator) list(v any, name, at string) []any {
	switch list := member(v, name).(type) {
	case []any:
		return list
	case nil:
	default:
		e.r.addAt(e.place(at+"."+name), "it is not a list: write it in brackets")
	}
	return nil
}

func (e *emulator) place(path string) place { return place{source: e.path, path: path} }

func (e *emulator) skip(format string, args ...any) {
	e.skipped = append(e.skipped, e.path+": skipped "+fmt.Sprintf(format, args...))
}

// member returns a member of a JSON object, its name compared without regard
// to case as .NET does, or nil.
func member(v any, name string) any {
	object, _ := v.(map[string]any)
	for key, value := range object {
		if strings.EqualFold(key, name) {
			return value
		}
	}
	return nil
}
