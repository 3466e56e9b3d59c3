package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"

	"github.com/crosstown-mq/crosstown/core"
)

// decode fills target, a pointer to a structure, from values and reports every
// value that does not fit.
func decode(r *report, values map[string]any, target any) {
	decoder, err := mapstructure.NewDecoder(decoderConfig(target))
	if err == nil {
		err = decoder.Decode(values)
	}
	reportDecode(r, err)
}

func decoderConfig(target any) *mapstructure.DecoderConfig {
	return &mapstructure.DecoderConfig{
		Result:     target,
		TagName:    "config",
		DecodeHook: convert,
		MatchName:  func(key, field string) bool { return key == field },
	}
}

// misfit is a value that its setting cannot take; the text says what it can.
type misfit string

func (m misfit) Error() string { return string(m) }

// reportDecode turns what the decoder found, a tree of errors, into problems.
func reportDecode(r *report, err error) {
	switch err := any(err).(type) { // the tree is walked node by node: AsType would pass over some
	case nil:
	case *mapstructure.DecodeError:
		if deeper, ok := errors.AsType[*mapstructure.DecodeError](err.Unwrap()); ok {
			reportDecode(r, deeper)
		} else if m, ok := errors.AsType[misfit](err); ok {
			r.add(err.Name(), "%s", m)
		} else {
			r.add(err.Name(), "%v", err.Unwrap())
		}
	case interface{ Unwrap() []error }:
		for _, e := range err.Unwrap() {
			reportDecode(r, e)
		}
	case interface{ Unwrap() error }:
		reportDecode(r, err.Unwrap())
	default:
		r.addAt(origin{source: "configuration"}, "%v", err)
	}
}

// convert is a decode hook: it makes from what a source gave (YAML's types, or the
// text of a flag or variable) what the setting takes, or says what that is.
func convert(_, to reflect.Type, v any) (any, error) {
	if to.Kind() == reflect.Pointer {
		return v, nil // asked again for what it points to
	}
	text, isText := v.(string)
	switch to {
	case reflect.TypeFor[time.Duration]():
		if isText {
			d, err := ParseDuration(text)
			return d, asMisfit(text, err)
		}
		return nil, misfit(fmt.Sprintf("%v has no unit: write it like 90s, 5m, 1h30m or PT5M", v))
	case reflect.TypeFor[core.Right]():
		if list, ok := v.([]any); ok {
			text, isText = strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]"), true
		}
		if isText {
			rights, err := core.ParseRights(text)
			return rights, asMisfit(text, err)
		}
		return nil, misfit(fmt.Sprintf("%v names no rights: write some of Send, Listen, Manage, separated by commas", v))
	case reflect.TypeFor[core.Status]():
		for _, s := range []core.Status{core.StatusActive, core.StatusDisabled, core.StatusSendDisabled, core.StatusReceiveDisabled} {
			if isText && strings.EqualFold(text, string(s)) {
				return s, nil
			}
		}
		return nil, misfit(fmt.Sprintf("%v is no status: write Active, Disabled, SendDisabled or ReceiveDisabled", v))
	case reflect.TypeFor[[]string]():
		if isText {
			return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' }), nil
		}
	}
	switch to.Kind() {
	case reflect.Int, reflect.Int64:
		return convertInt(v)
	case reflect.Float64:
		return convertFloat(v)
	case reflect.Bool:
		return convertBool(v)
	case reflect.String:
		if !isText {
			return nil, misfit(fmt.Sprintf("%v is not text: put it in quotes", v))
		}
	case reflect.Slice:
		if _, ok := v.([]any); !ok {
			return nil, misfit(fmt.Sprintf("%v is not a list: write one entry a line, each after a dash", v))
		}
	case reflect.Struct, reflect.Map:
		if _, ok := v.(map[string]any); !ok {
			return nil, misfit(fmt.Sprintf("%v is not a mapping: write settings as name: value, indented below", v))
		}
	}
	return v, nil
}

func asMisfit(text string, err error) error {
	if err == nil {
		return nil
	}
	return misfit(fmt.Sprintf("%q: %v", text, err))
}

func convertInt(v any) (any, error) {
	switch v := v.(type) {
	case int:
		return v, nil
	case int64:
		return v, nil
	case float64: // JSON has no other numbers
		if n := int64(v); float64(n) == v {
			return n, nil
		}
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n, nil
		}
	}
	return nil, misfit(fmt.Sprintf("%v is not a whole number: write digits only", v))
}

func convertFloat(v any) (any, error) {
	switch v := v.(type) {
	case int, int64, float64:
		return v, nil
	case string:
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			return f, nil
		}
	}
	return nil, misfit(fmt.Sprintf("%v is no number: write one such as 2 or 0.5", v))
}

func convertBool(v any) (any, error) {
	switch v := v.(type) {
	case bool:
		return v, nil
	case string:
		switch strings.ToLower(v) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
	}
	return nil, misfit(fmt.Sprintf("%v is neither true nor false: write one of these", v))
}
