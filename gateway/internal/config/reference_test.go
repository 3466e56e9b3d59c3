package config

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
)

// TestTheReferenceHasEverySetting compares docs/configuration.md with the structures of the
// configuration: names, flags, variables, kinds of values, defaults, and what a reload takes up.
func TestTheReferenceHasEverySetting(t *testing.T) {
	t.Parallel()
	page := readReference(t)
	rows := page.rows("Reference")
	for _, s := range settings(reflect.TypeFor[Config]()) {
		flag := "–"
		if s.usage != "" {
			flag = "`--" + s.flag() + "`"
		}
		want := []string{"`" + s.path + "`", flag, "`" + s.variable() + "`", kindOf(s.typ), takenUp(s.path)}
		deflt := reflect.ValueOf(Default()).Elem().FieldByIndex(s.index).Interface()
		if value, ok := builtIn[s.path]; ok {
			deflt = value
		}
		page.compare(t, rows, s.path, want, defaultText(deflt))
		delete(rows, s.path)
	}
	for name := range rows {
		if name != fileFlag && name != policyFlag {
			t.Errorf("docs/configuration.md has %s, which is not a setting", name)
		}
	}
}

// TestTheReferenceHasEverySettingOfEntities compares the table of queues, topics and subscriptions.
func TestTheReferenceHasEverySettingOfEntities(t *testing.T) {
	t.Parallel()
	page := readReference(t)
	rows := page.rows("Queues, topics and subscriptions")
	kinds := map[string]string{}
	defaults := map[string]string{}
	for _, of := range []struct {
		letter string
		typ    reflect.Type
		kind   core.Kind
	}{{"Q", reflect.TypeFor[Queue](), core.Queue}, {"T", reflect.TypeFor[Topic](), core.Topic}, {"S", reflect.TypeFor[Subscription](), core.Subscription}} {
		usual := core.DefaultSettings(of.kind)
		usual.MaxMessageSizeInKilobytes = core.DefaultMessageSizeKB
		for _, f := range fields(of.typ) {
			if f.Type.Kind() != reflect.Pointer {
				continue
			}
			name := f.Tag.Get("config")
			kinds[name] += of.letter
			text := defaultText(reflect.ValueOf(usual).FieldByName(f.Name).Interface())
			if old, ok := defaults[name]; ok && old != text {
				t.Errorf("%s: the defaults differ between kinds: %s and %s", name, old, text)
			}
			defaults[name] = text
		}
	}
	for name, letters := range kinds {
		page.compare(t, rows, name, []string{"`" + name + "`", strings.Join(strings.Split(letters, ""), " ")}, defaults[name])
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("docs/configuration.md has %s, which is not a setting of an entity", name)
	}
}

// TestTheReferenceHasEveryMemberOfLists compares the tables of lists of structures.
func TestTheReferenceHasEveryMemberOfLists(t *testing.T) {
	t.Parallel()
	page := readReference(t)
	for heading, types := range map[string][]reflect.Type{
		"Policies":                {reflect.TypeFor[Policy]()},
		"Rules of subscriptions":  {reflect.TypeFor[Rule]()},
		"Retries":                 {reflect.TypeFor[Retry]()},
		"Schedules":               {reflect.TypeFor[core.ScheduleSettings]()},
		"Histories":               {reflect.TypeFor[History]()},
		"Namespaces":              {reflect.TypeFor[Namespace]()},
		"Remotes":                 {reflect.TypeFor[Remote](), reflect.TypeFor[remote.Pull]()},
		"Webhooks":                {reflect.TypeFor[Hook](), reflect.TypeFor[Push]()},
		"Plugins and pipelines":   {reflect.TypeFor[Plugin](), reflect.TypeFor[Pipeline](), reflect.TypeFor[Stage]()},
		"Serializers of entities": {reflect.TypeFor[EntitySerializers]()},
		"Issuers of tokens":       {reflect.TypeFor[Issuer]()},
	} {
		rows := page.rows(heading)
		for _, typ := range types {
			for _, name := range members(typ) {
				if _, ok := rows[name]; !ok {
					t.Errorf("docs/configuration.md, %s: no row of %s", heading, name)
				}
			}
		}
		for name := range rows {
			if !slices.ContainsFunc(types, func(typ reflect.Type) bool { return slices.Contains(members(typ), name) }) {
				t.Errorf("docs/configuration.md, %s: %s is not a setting", heading, name)
			}
		}
	}
}

// members are the names of a list's element, those of a structure in it with its name before; not
// what a namespace has like the gateway.
func members(t reflect.Type) (all []string) {
	for _, f := range fields(t) {
		name := f.Tag.Get("config")
		switch {
		case t == reflect.TypeFor[Namespace]() && len(f.Index) > 1:
		case deref(f.Type).Kind() == reflect.Struct:
			for _, inner := range members(deref(f.Type)) {
				all = append(all, name+"."+inner)
			}
		default:
			all = append(all, name)
		}
	}
	return all
}

func deref(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// takenUp tells when a running gateway takes a changed setting up.
func takenUp(path string) string {
	running, changed := Default(), Default()
	running.TLS.Cert, changed.TLS.Cert = "cert", "cert"
	v := reflect.ValueOf(changed).Elem()
	for name := range strings.SplitSeq(path, ".") {
		for _, f := range fields(v.Type()) {
			if f.Tag.Get("config") == name {
				v = v.FieldByIndex(f.Index)
				break
			}
		}
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("changed")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Slice:
		v.Set(reflect.ValueOf([]string{"changed"}))
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	default:
		v.SetInt(v.Int() + 1)
	}
	if len(changed.NeedRestart(running)) == 0 {
		return "reload"
	}
	return "restart"
}

func kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t.Kind() == reflect.Bool:
		return "true, false"
	case t.Kind() == reflect.Slice:
		return "list"
	case t.Kind() == reflect.String:
		return "string"
	}
	return "number"
}

// defaultText is a default value in a table; "" where the structure does not know it.
func defaultText(v any) string {
	switch x := v.(type) {
	case time.Duration:
		return "`" + FormatDuration(x) + "`"
	case []string:
		if len(x) > 0 {
			return "`" + strings.Join(x, "`, `") + "`"
		}
		return ""
	case bool:
		return fmt.Sprintf("`%v`", x)
	}
	if reflect.ValueOf(v).IsZero() {
		return ""
	}
	return fmt.Sprintf("`%v`", v)
}

// reference is docs/configuration.md.
type reference string

func readReference(t *testing.T) reference {
	t.Helper()
	text, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	return reference(text)
}

var row = regexp.MustCompile("^\\| `([^`]+)` \\|")

// rows are the rows of the tables below a heading, up to the next of its level, by their first cell.
func (r reference) rows(heading string) map[string][]string {
	rows := map[string][]string{}
	level, in := 0, false
	for line := range strings.Lines(string(r)) {
		line = strings.TrimSpace(line)
		if title := strings.TrimLeft(line, "#"); title != line {
			if in && len(line)-len(title) <= level {
				break
			}
			if strings.TrimSpace(title) == heading {
				level, in = len(line)-len(title), true
			}
		}
		if m := row.FindStringSubmatch(line); in && m != nil {
			var cells []string
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), " | ") {
				cells = append(cells, strings.TrimSpace(cell))
			}
			rows[m[1]] = cells
		}
	}
	return rows
}

// compare looks for a row that begins with cells, of which the next is the default, if there is one.
func (r reference) compare(t *testing.T, rows map[string][]string, name string, cells []string, deflt string) {
	t.Helper()
	got, ok := rows[name]
	n := len(cells)
	if !ok || len(got) < n+2 || !slices.Equal(got[:n], cells) || deflt != "" && got[n] != deflt {
		t.Errorf("docs/configuration.md: the row of %s is\n| %s\nand must begin with\n| %s | %s |", name, strings.Join(got, " | "), strings.Join(cells, " | "), deflt)
	}
}
