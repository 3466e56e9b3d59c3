package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/spelling"
)

// decode converts given to v's type and stores it in v. If it reports a problem, ok is false.
func decode(r *report, given any, v reflect.Value, path string) (ok bool) {
	if given == nil {
		return true
	}
	switch v.Kind() {
	case reflect.Pointer:
		made := reflect.New(v.Type().Elem())
		if ok = decode(r, given, made.Elem(), path); ok {
			v.Set(made)
		}
		return ok
	case reflect.Interface:
		v.Set(reflect.ValueOf(given))
		return true
	}
	fits, err := convert(v.Type(), given)
	if err != nil {
		r.add(path, "%v", err)
		return false
	}
	ok = true
	switch fits := fits.(type) {
	case []any:
		list := reflect.MakeSlice(v.Type(), len(fits), len(fits))
		for i := range fits {
			ok = decode(r, fits[i], list.Index(i), elementPath(path, i)) && ok
		}
		v.Set(list)
	case map[string]any:
		if v.Kind() == reflect.Struct {
			return decodeStructure(r, fits, v, path)
		}
		all := reflect.MakeMap(v.Type())
		for name := range fits {
			element := reflect.New(v.Type().Elem()).Elem()
			ok = decode(r, fits[name], element, path+"["+name+"]") && ok
			all.SetMapIndex(reflect.ValueOf(name), element)
		}
		v.Set(all)
	default:
		v.Set(reflect.ValueOf(fits).Convert(v.Type()))
	}
	return ok
}

func decodeStructure(r *report, given map[string]any, v reflect.Value, path string) (ok bool) {
	inner := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	var known []string
	for _, f := range fields(v.Type()) {
		known = append(known, f.Tag.Get("config"))
	}
	for name := range given {
		if slices.Contains(known, name) {
			continue
		}
		if near := spelling.Nearest(name, known); len(near) > 0 {
			r.add(inner(name), "the setting does not exist: did you mean %s?", near[0])
		} else {
			r.add(inner(name), "the setting does not exist: remove it or use one of %s", strings.Join(known, ", "))
		}
	}
	ok = true
	for i, f := range fields(v.Type()) {
		ok = decode(r, given[known[i]], v.FieldByIndex(f.Index), inner(known[i])) && ok
	}
	return ok
}

// convert converts v, a value from YAML or the text of a flag or variable, to the type to.
func convert(to reflect.Type, v any) (any, error) {
	text, isText := v.(string)
	switch to {
	case reflect.TypeFor[time.Duration]():
		if isText {
			d, err := ParseDuration(text)
			return d, about(text, err)
		}
		return nil, fmt.Errorf("%v has no unit: write it like 90s, 5m, 1h30m or PT5M", v)
	case reflect.TypeFor[core.Right]():
		if list, ok := v.([]any); ok {
			text, isText = strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]"), true
		}
		if isText {
			rights, err := core.ParseRights(text)
			return rights, about(text, err)
		}
		return nil, fmt.Errorf("%v is not a list of rights: write Send, Listen or Manage, separated by commas", v)
	case reflect.TypeFor[core.Status]():
		for _, s := range core.Statuses {
			if isText && strings.EqualFold(text, string(s)) {
				return s, nil
			}
		}
		return nil, fmt.Errorf("%v is not a status: write Active, Disabled, SendDisabled or ReceiveDisabled", v)
	case reflect.TypeFor[[]string]():
		if isText {
			return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' }), nil
		}
	}
	switch to.Kind() {
	case reflect.Int, reflect.Int64:
		return convertInt(v)
	case reflect.Uint64:
		n, err := convertInt(v)
		if err == nil && n.(int64) < 0 {
			err = fmt.Errorf("%v is negative: write a positive number, or 0", v)
		}
		return n, err
	case reflect.Float64:
		f, err := strconv.ParseFloat(fmt.Sprint(v), 64)
		if err != nil {
			err = fmt.Errorf("%v is not a number: write one such as 2 or 0.5", v)
		}
		return f, err
	case reflect.Bool:
		return convertBool(v)
	case reflect.String:
		if !isText {
			return nil, fmt.Errorf("%v is not text: put it in quotes", v)
		}
	case reflect.Slice:
		if _, ok := v.([]any); !ok {
			return nil, fmt.Errorf("%v is not a list: write one entry a line, each after a dash", v)
		}
	case reflect.Struct, reflect.Map:
		if _, ok := v.(map[string]any); !ok {
			return nil, fmt.Errorf("%v is not a mapping: write each setting as 'name: value' on a line of its own", v)
		}
	}
	return v, nil
}

func about(text string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%q: %w", text, err)
}

func convertInt(v any) (any, error) {
	written := v
	if f, ok := v.(float64); ok { // JSON numbers are always float64
		written = strconv.FormatFloat(f, 'f', -1, 64)
	}
	n, err := strconv.ParseInt(fmt.Sprint(written), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%v is not a whole number: write one such as 10", v)
	}
	return n, nil
}

func convertBool(v any) (any, error) {
	switch strings.ToLower(fmt.Sprint(v)) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return nil, fmt.Errorf("%v is neither true nor false: write true or false", v)
}

type setting struct {
	path  string // path in the file, such as "log.level"
	usage string // usage text of the flag; "" if the setting has no flag
	alone string // value of a flag that is given without a value; "" if it requires one
	words string // the allowed values, separated by commas; "" if any value is allowed
	typ   reflect.Type
	index []int
}

func (s setting) flag() string { return strings.ReplaceAll(s.path, ".", "-") }

func (s setting) variable() string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(s.path))
}

// settings returns the settings in the structure t. It omits lists of structures.
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
		case isList(f.Type):
		default:
			all = append(all, setting{name, f.Tag.Get("usage"), f.Tag.Get("alone"), f.Tag.Get("values"), f.Type, f.Index})
		}
	}
	return all
}

func isList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// settingsOf returns the settings of entities of kind k, with the usage texts for this kind.
func settingsOf(k core.Kind) (all []setting) {
	t := reflect.TypeFor[EntitySettings]()
	for i, s := range settings(t) {
		if f := fields(t)[i]; core.SettingNamed(f.Name).Kinds.Has(k) {
			s.usage = cmp.Or(f.Tag.Get(k.Word()), s.usage)
			all = append(all, s)
		}
	}
	return all
}

var settingsByName = sync.OnceValue(func() map[core.Kind]map[string]*setting {
	all := map[core.Kind]map[string]*setting{}
	for _, k := range entityKinds {
		all[k] = map[string]*setting{}
		for _, s := range settingsOf(k) {
			all[k][spelling.Fold(s.path)] = &s
		}
	}
	return all
})

// settingOf finds a setting of entities of kind k. It ignores case and hyphens of the name.
func settingOf(k core.Kind, name string) *setting { return settingsByName()[k][spelling.Fold(name)] }

var entityKinds = map[reflect.Type]core.Kind{
	reflect.TypeFor[Queue](): core.Queue, reflect.TypeFor[Topic](): core.Topic, reflect.TypeFor[Subscription](): core.Subscription,
}

var knownFields sync.Map

// fields returns the fields of t that are settings, including those of embedded structures. For an
// entity, it omits settings that entities of this kind do not have.
func fields(t reflect.Type) []reflect.StructField {
	if known, ok := knownFields.Load(t); ok {
		return known.([]reflect.StructField)
	}
	kind, isEntity := entityKinds[t]
	all := slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
		s := core.SettingNamed(f.Name)
		return f.Anonymous || f.Tag.Get("config") == "-" || isEntity && s != nil && !s.Kinds.Has(kind)
	})
	knownFields.Store(t, all)
	return all
}

// ParseDuration parses a duration in Go's notation (90s, 1h30m), in ISO 8601 (PT1M30S, P14D), in
// whole days (14d), as a TimeSpan of .NET (14.00:00:00), or "forever". If time.Duration cannot hold
// the duration, such as .NET's largest TimeSpan, the result is core.Forever.
func ParseDuration(s string) (time.Duration, error) {
	if strings.EqualFold(s, "forever") {
		return core.Forever, nil
	}
	if d, err := core.ParseAnyDuration(s); err == nil {
		return d, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok && isNumber(days) {
		return core.ParseDuration("P" + days + "D")
	}
	if span := timeSpan.FindStringSubmatch(s); span != nil {
		return core.ParseDuration(fmt.Sprintf("P%sDT%sH%sM%sS", cmp.Or(span[1], "0"), span[2], span[3], span[4]))
	}
	return 0, errors.New(`the value is not a duration: write it like 90s, 5m, 1h30m, 14d, PT5M, P14D or forever`)
}

// timeSpan matches durations in older ARM templates: days.hours:minutes:seconds.
var timeSpan = regexp.MustCompile(`^(?:(\d+)\.)?(\d+):(\d+):(\d+(?:\.\d+)?)$`)

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
