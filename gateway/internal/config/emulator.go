package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/jsonc"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/spelling"
)

// emulator converts the official emulator's Config.json to the values of a configuration file.
type emulator struct {
	path    string
	r       *report
	values  map[string]any
	skipped []string
	assumes map[string]any // default values for settings that Config.json omits; nil for an ARM template
	assumed int            // how many values of assumes were used
}

// emulatorDefaults are the emulator's defaults that differ from those of Service Bus.
var emulatorDefaults = map[string]any{
	"max-delivery-count": 3, "default-message-time-to-live": "PT1H", "lock-duration": "PT1M", "duplicate-detection-history-time-window": "PT20S",
}

// addEmulator adds the entities in the emulator's Config.json to values. It adds the name of the
// namespace in that file only if values have no namespace name.
func addEmulator(values map[string]any, r *report) (skipped []string, assumed int) {
	path, ok := values["emulator-config"].(string)
	if !ok || path == "" {
		return nil, 0
	}
	e := &emulator{path: path, r: r, values: values, assumes: emulatorDefaults}
	data, err := os.ReadFile(path)
	if err != nil {
		r.add("emulator-config", "%v: specify a file that exists and that the current user may read", err)
		return nil, 0
	}
	root := parseJSON(path, data, r)
	if root == nil {
		return nil, 0
	}
	user, ok := member(root, "UserConfig").(map[string]any)
	if !ok {
		r.addAt(origin{source: path}, `the file has no UserConfig: write {"UserConfig": {"Namespaces": […]}}, as in the emulator's own file`)
	}
	for i, ns := range e.list(user, "Namespaces", "UserConfig") {
		e.namespace(ns, i)
	}
	return e.skipped, e.assumed
}

// parseJSON parses data. Like .NET, it allows a byte order mark, comments and trailing commas.
func parseJSON(path string, data []byte, r *report) any {
	data = jsonc.ToJSON(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	var root any
	if err := json.Unmarshal(data, &root); err != nil {
		line := 1
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			line += strings.Count(string(data[:syntax.Offset]), "\n")
		}
		r.addAt(origin{source: path, line: line}, "%v: the file must be valid JSON", err)
	}
	return root
}

func (e *emulator) namespace(ns any, i int) {
	at := elementPath("UserConfig.Namespaces", i)
	name := member(ns, "Name")
	if i > 0 {
		e.skip("namespace %v: only the first one in the emulator's file is used; list it under namespaces in the gateway's own file, with a key of its own", name)
		return
	}
	if e.values["namespace"] == nil && name != nil {
		e.values["namespace"] = name
		e.r.origins["namespace"] = e.origin(at + ".Name")
	}
	e.add("queues", e.list(ns, "Queues", at), at+".Queues", e.queue)
	e.add("topics", e.list(ns, "Topics", at), at+".Topics", e.topic)
}

func (e *emulator) add(name string, given []any, at string, convert func(v any, at, path string) map[string]any) {
	list, ok := e.values[name].([]any)
	if !ok && e.values[name] != nil {
		return // decode will report the wrong type
	}
	if list = append(list, e.convert(given, at, name, len(list), convert)...); list != nil {
		e.values[name] = list
	}
}

// convert converts each element of the list given, which is at the path at in the emulator's file.
// The elements get the paths path[n], path[n+1] and so on.
func (e *emulator) convert(given []any, at, path string, n int, convert func(v any, at, path string) map[string]any) []any {
	var list []any
	for i, v := range given {
		at, path := elementPath(at, i), elementPath(path, n+i)
		e.r.origins[path] = e.origin(at)
		list = append(list, convert(v, at, path))
	}
	return list
}

func (e *emulator) entity(v any, at, path string, k core.Kind) map[string]any {
	name, properties := member(v, "Name"), member(v, "Properties")
	entry := map[string]any{"name": name}
	e.r.origins[path+".name"] = e.origin(at + ".Name")
	given, _ := properties.(map[string]any)
	for property, v := range given {
		switch known := settingOf(k, property); {
		case known == nil:
			e.skip("property %s of %s %v: the setting does not exist", property, k.Word(), name)
		case v == nil || v == "": // the emulator's sample file writes "" for no forwarding
		default:
			entry[known.path] = v
			e.r.origins[path+"."+known.path] = e.origin(at + ".Properties." + property)
		}
	}
	for name, v := range e.assumes {
		if settingOf(k, name) != nil && entry[name] == nil {
			entry[name] = v
			e.assumed++
		}
	}
	return entry
}

func (e *emulator) queue(q any, at, path string) map[string]any {
	return e.entity(q, at, path, core.Queue)
}

func (e *emulator) topic(t any, at, path string) map[string]any {
	entry := e.entity(t, at, path, core.Topic)
	entry["subscriptions"] = e.convert(e.list(t, "Subscriptions", at), at+".Subscriptions", path+".subscriptions", 0, func(s any, at, path string) map[string]any {
		entry := e.entity(s, at, path, core.Subscription)
		if rules := e.list(s, "Rules", at); len(rules) > 0 { // without rules, the subscription gets all messages
			entry["rules"] = e.convert(rules, at+".Rules", path+".rules", 0, e.rule)
		}
		return entry
	})
	return entry
}

func (e *emulator) rule(v any, at, path string) map[string]any {
	name, properties := member(v, "Name"), member(v, "Properties")
	entry := map[string]any{"name": name}
	e.r.origins[path+".name"] = e.origin(at + ".Name")
	at += ".Properties"
	set := func(setting, property string, v any) {
		if v != nil {
			entry[setting] = v
			e.r.origins[path+"."+setting] = e.origin(at + "." + property)
		}
	}
	switch kind := member(properties, "FilterType"); {
	case kind == nil, sameWord(kind, "true"), sameWord(kind, "TrueFilter"):
	case sameWord(kind, "sql"), sameWord(kind, "SqlFilter"):
		set("sql", "SqlFilter.SqlExpression", member(member(properties, "SqlFilter"), "SqlExpression"))
		if entry["sql"] == nil {
			e.r.addAt(e.origin(at+".SqlFilter"), "the filter has no SqlExpression: write one, such as 1=1")
		}
	case sameWord(kind, "correlation"), sameWord(kind, "CorrelationFilter"):
		set("correlation", "CorrelationFilter", e.correlation(member(properties, "CorrelationFilter"), at+".CorrelationFilter", path+".correlation"))
	default:
		e.r.addAt(e.origin(at+".FilterType"), "%v is not a type of filter: write Sql or Correlation", kind)
	}
	set("action", "Action.SqlExpression", member(member(properties, "Action"), "SqlExpression"))
	return entry
}

func (e *emulator) correlation(v any, at, path string) any {
	given, ok := v.(map[string]any)
	if !ok {
		e.r.addAt(e.origin(at), "the conditions are missing: write the conditions of the filter in braces")
		return nil
	}
	known := map[string]any{}
	for property, v := range given {
		found := v == nil
		for _, f := range fields(reflect.TypeFor[Correlation]()) {
			if name := f.Tag.Get("config"); v != nil && (spelling.Fold(name) == spelling.Fold(property) || name == "label" && spelling.Fold(property) == "subject") {
				known[name], found = v, true
				e.r.origins[path+"."+name] = e.origin(at + "." + property)
			}
		}
		if !found {
			e.r.addAt(e.origin(at+"."+property), "a correlation filter has no such condition: remove it")
		}
	}
	return known
}

func sameWord(v any, word string) bool {
	text, ok := v.(string)
	return ok && strings.EqualFold(text, word)
}

func (e *emulator) list(v any, name, at string) []any {
	switch list := member(v, name).(type) {
	case []any:
		return list
	case nil:
	default:
		e.r.addAt(e.origin(at+"."+name), "the value is not a list: write it in brackets")
	}
	return nil
}

func (e *emulator) origin(path string) origin {
	if e.assumes == nil {
		path = strings.ReplaceAll(path, ".Properties", ".properties")
	}
	return origin{source: e.path, path: path}
}

func (e *emulator) skip(format string, args ...any) {
	e.skipped = append(e.skipped, e.path+": skipped "+fmt.Sprintf(format, args...))
}

// member returns the member name of the JSON object v. Like .NET, it ignores case.
func member(v any, name string) any {
	object, _ := v.(map[string]any)
	for key, value := range object {
		if strings.EqualFold(key, name) {
			return value
		}
	}
	return nil
}

// The official emulator's container reads containerFile as its configuration. It serves management
// and health on the port in containerPortVariable. Crosstown ignores the other variables of the
// container (ACCEPT_EULA, SQL_SERVER, MSSQL_SA_PASSWORD, SQL_WAIT_INTERVAL).
const (
	containerFile         = "/ServiceBus_Emulator/ConfigFiles/Config.json"
	containerPortVariable = "EMULATOR_HTTP_PORT"
	containerPort         = "5300"
)

// If the setting emulator is true, addContainer sets the official emulator's defaults in values.
// file is the path of the emulator's Config.json, which may be missing.
func addContainer(values map[string]any, environ []string, file string, r *report) {
	if wanted, err := convertBool(values["emulator"]); err != nil || wanted != true {
		return // decode will report the wrong type
	}
	set := func(name string, v any, source string) {
		if values[name] == nil {
			values[name] = v
			r.origins[name] = origin{source: source}
		}
	}
	set("dev-key-anywhere", true, "--emulator")
	set("require-tls", "off", "--emulator")
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		set("emulator-config", file, "--emulator")
	}
	port, source := Variable(environ, containerPortVariable), containerPortVariable
	switch n, err := strconv.ParseUint(port, 10, 16); {
	case port == "":
		port, source = containerPort, "--emulator"
	case err != nil || n == 0:
		r.addAt(origin{source: source}, "%q is not a port: write a number between 1 and 65535", port)
		port = containerPort
	}
	var listen []any
	for _, address := range defaultListen {
		address = strings.TrimPrefix(address, "127.0.0.1")
		if address == ":"+containerPort {
			address = ":" + port
		}
		if !slices.Contains(listen, any(address)) { // every listener serves all protocols
			listen = append(listen, address)
		}
	}
	set("listen", listen, source)
}
